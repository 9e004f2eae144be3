#include "agent/stacks/elf_image.h"

#include <cxxabi.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace meshbus::stacks {
namespace {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 && text != nullptr ? std::string(text.get()) : std::string(name);
}

Elf_Scn* find_section(Elf* elf, const char* wanted) {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return nullptr;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    const char* name = elf_strptr(elf, names, header.sh_name);
    if (name != nullptr && std::string_view(name) == wanted) return section;
  }
  return nullptr;
}

/// "/usr/lib/debug/.build-id/ab/cdef....debug". Empty: it has no build id.
std::string debug_path(Elf* elf) {
  const void* id = nullptr;
  const auto size = dwelf_elf_gnu_build_id(elf, &id);
  if (size < 2) return {};
  const auto* bytes = static_cast<const unsigned char*>(id);
  std::string path = "/usr/lib/debug/.build-id/";
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (ssize_t i = 0; i < size; ++i) {
    path += kDigits[bytes[i] >> 4];
    path += kDigits[bytes[i] & 15];
    if (i == 0) path += '/';
  }
  return path + ".debug";
}

}  // namespace

ElfImage::ElfImage(Elf* elf, UniqueFd file, std::string name)
    : file_(std::move(file)), elf_(elf), name_(std::move(name)) {
  eh_frame_ = dwarf_getcfi_elf(elf_);
}

ElfImage::~ElfImage() {
  if (eh_frame_ != nullptr) dwarf_cfi_end(eh_frame_);
  if (dwarf_ != nullptr) dwarf_end(dwarf_);
  if (debug_elf_ != nullptr) elf_end(debug_elf_);
  elf_end(elf_);
}

std::unique_ptr<ElfImage> ElfImage::open(const std::string& path, const std::string& name) {
  elf_version(EV_CURRENT);
  // A rank may have put a pipe or a device there.
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file) return nullptr;
  Elf* elf = elf_begin(file.get(), ELF_C_READ_MMAP, nullptr);
  if (elf == nullptr) return nullptr;
  if (elf_kind(elf) != ELF_K_ELF) {
    elf_end(elf);
    return nullptr;
  }
  return std::unique_ptr<ElfImage>(new ElfImage(elf, std::move(file), name));
}

std::unique_ptr<ElfImage> ElfImage::in_memory(char* image, std::size_t size,
                                              const std::string& name) {
  elf_version(EV_CURRENT);
  Elf* elf = elf_memory(image, size);
  if (elf == nullptr) return nullptr;
  return std::unique_ptr<ElfImage>(new ElfImage(elf, UniqueFd(), name));
}

std::optional<std::uint64_t> ElfImage::address_of(std::uint64_t offset) const {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) - 1;
  std::size_t count = 0;
  if (elf_getphdrnum(elf_, &count) != 0) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf_, static_cast<int>(i), &segment) == nullptr || segment.p_type != PT_LOAD ||
        (segment.p_flags & PF_X) == 0)
      continue;
    // The kernel maps whole pages, so the first one may have the end of the segment before.
    const std::uint64_t below = segment.p_offset & page;
    if (offset >= segment.p_offset - below && offset < segment.p_offset + segment.p_filesz)
      return segment.p_vaddr + (offset - segment.p_offset);
  }
  return std::nullopt;
}

Dwarf_Frame* ElfImage::find_frame(std::uint64_t address) {
  Dwarf_Frame* frame = nullptr;
  if (eh_frame_ == nullptr || dwarf_cfi_addrframe(eh_frame_, address, &frame) != 0) return nullptr;
  return frame;
}

std::uint64_t ElfImage::function_start(std::uint64_t address) {
  const std::unique_ptr<Dwarf_Frame, void (*)(void*)> frame(find_frame(address), std::free);
  Dwarf_Addr start = address;
  if (frame != nullptr) dwarf_frame_info(frame.get(), &start, nullptr, nullptr);
  return start;
}

void ElfImage::open_debug_file() {
  const auto path = debug_path(elf_);
  if (path.empty()) return;
  debug_file_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (debug_file_) debug_elf_ = elf_begin(debug_file_.get(), ELF_C_READ_MMAP, nullptr);
}

void ElfImage::add_symbols(Elf* elf) {
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_entsize == 0 ||
        (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM))
      continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr) continue;
    const auto count = static_cast<int>(header.sh_size / header.sh_entsize);
    for (int i = 0; i < count; ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(data, i, &symbol) == nullptr || symbol.st_shndx == SHN_UNDEF) continue;
      const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (name == nullptr || *name == '\0') continue;
      const auto type = GELF_ST_TYPE(symbol.st_info);
      const Symbol found{symbol.st_value, symbol.st_size, name};
      if (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE)
        functions_.push_back(found);
      else if (type == STT_OBJECT)
        objects_.push_back(found);
    }
  }
}

void ElfImage::read_symbols() {
  if (std::exchange(has_read_symbols_, true)) return;
  add_symbols(elf_);
  if (find_section(elf_, ".symtab") == nullptr) {
    open_debug_file();
    if (debug_elf_ != nullptr) add_symbols(debug_elf_);
  }
  std::stable_sort(functions_.begin(), functions_.end(), [](const Symbol& a, const Symbol& b) {
    return a.address != b.address ? a.address < b.address : a.size > b.size;
  });
}

std::string ElfImage::function_at(std::uint64_t address) {
  read_symbols();
  const auto after = std::upper_bound(
      functions_.begin(), functions_.end(), address,
      [](std::uint64_t wanted, const Symbol& symbol) { return wanted < symbol.address; });
  // Aliases of one function are beside each other, and local labels without a size may be between.
  constexpr int kMostBack = 16;
  auto at = after;
  for (int back = 0; back < kMostBack && at != functions_.begin(); ++back) {
    --at;
    if (address < at->address + at->size) {
      while (at != functions_.begin() && (at - 1)->address == at->address &&
             (at - 1)->size == at->size)
        --at;
      return demangled(at->name);
    }
  }
  if (after != functions_.begin() && (after - 1)->size == 0) return demangled((after - 1)->name);
  return {};
}

std::optional<std::uint64_t> ElfImage::find_symbol(std::string_view symbol) {
  read_symbols();
  for (const auto& object : objects_) {
    if (object.name == symbol) return object.address;
  }
  return std::nullopt;
}

std::optional<ElfImage::Line> ElfImage::line_at(std::uint64_t address) {
  if (!std::exchange(has_tried_dwarf_, true)) {
    read_symbols();
    Elf* with = find_section(elf_, ".debug_aranges") != nullptr ? elf_ : debug_elf_;
    if (with != nullptr && find_section(with, ".debug_aranges") != nullptr)
      dwarf_ = dwarf_begin_elf(with, DWARF_C_READ, nullptr);
  }
  Dwarf_Die unit;
  if (dwarf_ == nullptr || dwarf_addrdie(dwarf_, address, &unit) == nullptr) return std::nullopt;
  Dwarf_Line* line = dwarf_getsrc_die(&unit, address);
  int number = 0;
  const char* file = line == nullptr ? nullptr : dwarf_linesrc(line, nullptr, nullptr);
  if (file == nullptr || dwarf_lineno(line, &number) != 0 || number <= 0) return std::nullopt;
  const std::string_view path = file;
  return Line{std::string(path.substr(path.find_last_of('/') + 1)),
              static_cast<std::uint32_t>(number)};
}

}  // namespace meshbus::stacks
