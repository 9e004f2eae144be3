#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshbus {

/// What an ELF file says about the libraries that it is linked with.
struct ElfNeeds {
  std::vector<std::string> libraries;    ///< DT_NEEDED, like "libmpi.so.40".
  std::vector<std::string> directories;  ///< DT_RUNPATH or DT_RPATH; $ORIGIN is filled in.
};

/// Empty when the file is no ELF file of 64 bits and this byte order, or cannot be read.
ElfNeeds read_needs(const std::string& file);

/// All libraries that the program needs, directly and through others, each once, nearest first.
/// Libraries are looked for where the loader looks: in the directories that the files name, in
/// `library_path` (LD_LIBRARY_PATH) and in the usual ones; not in the loader's cache.
std::vector<std::string> all_needed_libraries(const std::string& program,
                                              std::string_view library_path);

}  // namespace meshbus
