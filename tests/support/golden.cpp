#include "tests/support/golden.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <tuple>

#include "tests/support/temp_dir.h"

// A file: what it means, a line that says "bytes:", then the bytes in hexadecimal, 32 a line.

namespace meshbus::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHex = "0123456789abcdef";
constexpr std::size_t kBytesPerLine = 32;
const std::string kMark = "\nbytes:\n";

std::string from_hex(const std::string& text, const fs::path& path) {
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
               [](char letter) { return letter != '\n' && letter != ' '; });
  if (digits.size() % 2 != 0 || digits.find_first_not_of(kHex) != std::string::npos)
    throw std::runtime_error(path.string() + ": what follows \"bytes:\" is not hexadecimal");
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

std::string to_hex(const std::string& bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    text += {kHex[byte >> 4], kHex[byte & 15]};
    if (i % kBytesPerLine == kBytesPerLine - 1) text += '\n';
  }
  return text.ends_with('\n') ? text : text + '\n';
}

Golden read_one(const fs::path& path) {
  const auto whole = read_file(path);
  const auto mark = whole.find(kMark);
  if (mark == std::string::npos)
    throw std::runtime_error(path.string() + ": there is no line \"bytes:\"");
  return {path.parent_path().filename().string(), path.stem().string(), whole.substr(0, mark + 1),
          from_hex(whole.substr(mark + kMark.size()), path)};
}

}  // namespace

std::string source_dir() {
  return MESHBUS_SOURCE_DIR;
}

std::vector<Golden> read_golden() {
  std::vector<Golden> all;
  for (const auto& entry : fs::recursive_directory_iterator(source_dir() + "/tests/golden")) {
    if (entry.is_regular_file() && entry.path().extension() == ".txt")
      all.push_back(read_one(entry.path()));
  }
  std::sort(all.begin(), all.end(), [](const Golden& a, const Golden& b) {
    return std::tie(a.release, a.name) < std::tie(b.release, b.name);
  });
  return all;
}

std::string add_golden(const Golden& golden) {
  const fs::path path =
      fs::path(source_dir()) / "tests/golden" / golden.release / (golden.name + ".txt");
  if (fs::exists(path)) throw std::runtime_error(path.string() + " is there already");
  fs::create_directories(path.parent_path());
  std::ofstream(path) << golden.meaning << kMark.substr(1) << to_hex(golden.bytes);
  return path.string();
}

}  // namespace meshbus::test
