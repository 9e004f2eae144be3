#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "agent/stacks/elf_image.h"
#include "agent/stacks/process_maps.h"

namespace meshbus::stacks {

/// The images that processes have mapped. Ranks run the same few: each file is read once.
class ImageCache {
 public:
  /// The image of a mapping, and what to take from an address in memory for one in the file.
  struct Placed {
    ElfImage* image = nullptr;  ///< Null: there is none.
    std::uint64_t bias = 0;
  };
  /// `pid`: whose mapping it is; its file is looked up where that process sees it.
  Placed find(pid_t pid, const Mapping& mapping);

 private:
  ElfImage* find_vdso();

  std::map<std::pair<std::string, std::uint64_t>, std::unique_ptr<ElfImage>> images_;
  std::unique_ptr<ElfImage> vdso_;
  bool has_tried_vdso_ = false;
};

}  // namespace meshbus::stacks
