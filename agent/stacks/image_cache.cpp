#include "agent/stacks/image_cache.h"

#include <sys/auxv.h>

#include <array>
#include <cstdio>

namespace meshbus::stacks {
namespace {

/// More than any kernel's vdso; it is followed by nothing that is read as part of it.
constexpr std::size_t kVdsoSize = 4096;

std::string base_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

ElfImage* ImageCache::find_vdso() {
  if (!std::exchange(has_tried_vdso_, true)) {
    const auto own = getauxval(AT_SYSINFO_EHDR);
    const auto maps = ProcessMaps::read(::getpid());
    const Mapping* mapping = maps.find(own);
    const auto size = mapping == nullptr ? kVdsoSize : mapping->end - mapping->begin;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): where the kernel says that it lies.
    if (own != 0) vdso_ = ElfImage::in_memory(reinterpret_cast<char*>(own), size, "[vdso]");
  }
  return vdso_.get();
}

ImageCache::Placed ImageCache::find(pid_t pid, const Mapping& mapping) {
  if (mapping.path == "[vdso]") return {find_vdso(), mapping.begin};
  if (!mapping.is_file()) return {};
  auto [entry, is_new] = images_.try_emplace(std::pair(mapping.device, mapping.inode), nullptr);
  if (is_new) {
    const auto own = "/proc/" + std::to_string(pid);
    entry->second = ElfImage::open(own + "/root" + mapping.path, base_name(mapping.path));
    if (entry->second == nullptr) {
      // The file was replaced or removed: an update, a container's layer.
      std::array<char, 64> range{};
      std::snprintf(range.data(), range.size(), "/map_files/%lx-%lx",
                    static_cast<unsigned long>(mapping.begin),
                    static_cast<unsigned long>(mapping.end));
      entry->second = ElfImage::open(own + range.data(), base_name(mapping.path));
    }
  }
  ElfImage* image = entry->second.get();
  if (image == nullptr) return {};
  const auto address = image->address_of(mapping.offset);
  if (!address) return {};
  return {image, mapping.begin - *address};
}

}  // namespace meshbus::stacks
