#include "client/src/mpi/needed_libraries.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <set>
#include <span>

#include "common/base/unique_fd.h"

namespace meshbus {
namespace {

/// Files that are read for one program, at most. LAMMPS has about 120.
constexpr std::size_t kMostFiles = 400;

/// A file in memory, read-only.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status{};
    if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0)
      return;
    size_ = static_cast<std::size_t>(status.st_size);
    void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (at != MAP_FAILED) data_ = static_cast<const char*>(at);
  }
  ~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const char> bytes() const {
    return data_ == nullptr ? std::span<const char>() : std::span(data_, size_);
  }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The structure at that offset; nothing when it is not whole.
template <typename Value>
std::optional<Value> value_at(std::span<const char> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(Value)) return std::nullopt;
  Value value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string text_at(std::span<const char> bytes, std::uint64_t offset) {
  if (offset >= bytes.size()) return {};
  const char* const begin = bytes.data() + offset;
  return {begin, ::strnlen(begin, bytes.size() - offset)};
}

std::vector<std::string> split_path(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto colon = text.find(':');
    if (colon != 0) parts.emplace_back(text.substr(0, colon));
    text.remove_prefix(colon == std::string_view::npos ? text.size() : colon + 1);
  }
  return parts;
}

void fill_in_origin(std::string& directory, const std::string& file) {
  for (const std::string_view word : {"${ORIGIN}", "$ORIGIN"}) {
    if (const auto at = directory.find(word); at != std::string::npos) {
      const auto slash = file.rfind('/');
      directory.replace(at, word.size(), slash == std::string::npos ? "." : file.substr(0, slash));
    }
  }
}

ElfNeeds parse_needs(std::span<const char> bytes, const std::string& file) {
  const auto header = value_at<Elf64_Ehdr>(bytes, 0);
  constexpr auto kOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != kOrder)
    return {};
  std::vector<Elf64_Phdr> segments;
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    const auto segment =
        value_at<Elf64_Phdr>(bytes, header->e_phoff + std::uint64_t{i} * sizeof(Elf64_Phdr));
    if (!segment) return {};
    segments.push_back(*segment);
  }
  const auto dynamic = std::find_if(segments.begin(), segments.end(), [](const auto& segment) {
    return segment.p_type == PT_DYNAMIC;
  });
  if (dynamic == segments.end()) return {};
  std::vector<std::pair<std::int64_t, std::uint64_t>> entries;
  std::uint64_t strings = 0;
  for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->p_filesz; at += sizeof(Elf64_Dyn)) {
    const auto entry = value_at<Elf64_Dyn>(bytes, dynamic->p_offset + at);
    if (!entry || entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
    entries.emplace_back(entry->d_tag, entry->d_un.d_val);
  }
  // The table of strings is named by its address in memory.
  const auto holder = std::find_if(segments.begin(), segments.end(), [strings](const auto& one) {
    return one.p_type == PT_LOAD && strings >= one.p_vaddr && strings - one.p_vaddr < one.p_filesz;
  });
  if (holder == segments.end()) return {};
  const auto table = holder->p_offset + (strings - holder->p_vaddr);
  ElfNeeds needs;
  for (const auto& [tag, value] : entries) {
    if (tag == DT_NEEDED) needs.libraries.push_back(text_at(bytes, table + value));
    if (tag != DT_RUNPATH && tag != DT_RPATH) continue;
    for (auto& directory : split_path(text_at(bytes, table + value))) {
      fill_in_origin(directory, file);
      needs.directories.push_back(std::move(directory));
    }
  }
  return needs;
}

/// Where the loader looks in the end, on Debian and on others.
std::vector<std::string> usual_directories() {
#if defined(__x86_64__)
  const std::string triplet = "/x86_64-linux-gnu";
#elif defined(__aarch64__)
  const std::string triplet = "/aarch64-linux-gnu";
#else
  const std::string triplet;
#endif
  return {"/usr/local/lib", "/lib" + triplet, "/usr/lib" + triplet, "/lib64", "/usr/lib64",
          "/lib",           "/usr/lib"};
}

/// The C and C++ libraries, which need nothing that matters here.
bool is_basic(std::string_view library) {
  constexpr auto kBasic = std::to_array<std::string_view>(
      {"libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libstdc++.so", "libgcc_s.so",
       "ld-linux", "libz.so"});
  return std::any_of(kBasic.begin(), kBasic.end(),
                     [library](std::string_view one) { return library.starts_with(one); });
}

}  // namespace

ElfNeeds read_needs(const std::string& file) {
  const MappedFile mapped(file);
  return parse_needs(mapped.bytes(), file);
}

std::vector<std::string> all_needed_libraries(const std::string& program,
                                              std::string_view library_path) {
  const auto said = split_path(library_path);
  const auto usual = usual_directories();
  std::vector<std::string> found;
  std::set<std::string> seen;
  std::deque<std::string> files{program};
  for (std::size_t read = 0; !files.empty() && read < kMostFiles; ++read) {
    const auto needs = read_needs(files.front());
    files.pop_front();
    for (const auto& library : needs.libraries) {
      if (is_basic(library) || !seen.insert(library).second) continue;
      found.push_back(library);
      for (const auto* directories : {&needs.directories, &said, &usual}) {
        const auto at =
            std::find_if(directories->begin(), directories->end(), [&](const auto& directory) {
              return ::access((directory + "/" + library).c_str(), R_OK) == 0;
            });
        if (at == directories->end()) continue;
        files.push_back(*at + "/" + library);
        break;
      }
    }
  }
  return found;
}

}  // namespace meshbus
