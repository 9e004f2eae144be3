#pragma once

#include <elfutils/libdw.h>
#include <libelf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/unique_fd.h"

namespace meshbus::stacks {

/// A program or library as it lies in its file: how to unwind through it, and what its functions
/// are called. Addresses are those of the file. Needs no debug information; uses it where it is.
class ElfImage {
 public:
  /// Null: it cannot be read, or is no ELF file.
  static std::unique_ptr<ElfImage> open(const std::string& path, const std::string& name);
  /// An image in our own memory, which stays there: the kernel's vdso.
  static std::unique_ptr<ElfImage> in_memory(char* image, std::size_t size,
                                             const std::string& name);
  ~ElfImage();
  ElfImage(const ElfImage&) = delete;
  ElfImage& operator=(const ElfImage&) = delete;

  /// "libc.so.6"
  const std::string& name() const noexcept { return name_; }
  /// The address of the byte at that offset of the file, where code is loaded from there.
  std::optional<std::uint64_t> address_of(std::uint64_t offset) const;
  /// How to leave the frame of the function there. Free it; null: nothing is known.
  Dwarf_Frame* find_frame(std::uint64_t address);
  /// Where the function there begins, by the same table; the address itself where there is none.
  std::uint64_t function_start(std::uint64_t address);
  /// The function there, demangled. Empty: no symbol.
  std::string function_at(std::uint64_t address);
  /// Where a symbol lies that programs may link with, or another one of its symbol table.
  std::optional<std::uint64_t> find_symbol(std::string_view symbol);
  /// Its source line, where there is debug information with an index.
  struct Line {
    std::string file;
    std::uint32_t number = 0;
  };
  std::optional<Line> line_at(std::uint64_t address);

 private:
  struct Symbol {
    std::uint64_t address;
    std::uint64_t size;
    const char* name;
  };
  ElfImage(Elf* elf, UniqueFd file, std::string name);
  void read_symbols();
  void add_symbols(Elf* elf);
  /// The file that a distribution keeps apart, by the build id.
  void open_debug_file();

  UniqueFd file_;
  Elf* elf_;
  std::string name_;
  UniqueFd debug_file_;
  Elf* debug_elf_ = nullptr;
  Dwarf_CFI* eh_frame_ = nullptr;
  Dwarf* dwarf_ = nullptr;
  bool has_read_symbols_ = false;
  bool has_tried_dwarf_ = false;
  std::vector<Symbol> functions_;
  std::vector<Symbol> objects_;
};

}  // namespace meshbus::stacks
