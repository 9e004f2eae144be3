#pragma once

#include <span>
#include <string_view>

namespace meshbus {

/// A file of the page, as it is in client/dashboard. The build makes them part of the program.
struct PageFile {
  std::string_view path;  ///< "/main.js"
  std::string_view type;  ///< For Content-Type.
  std::string_view bytes;
};
std::span<const PageFile> page_files();

}  // namespace meshbus
