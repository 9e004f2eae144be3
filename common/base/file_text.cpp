#include "common/base/file_text.h"

#include <fstream>
#include <sstream>

namespace meshbus {

std::string file_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

}  // namespace meshbus
