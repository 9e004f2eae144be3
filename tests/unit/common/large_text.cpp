// Large texts lie in huge pages where the kernel has them, and are texts like any other.
#include "meshbus/large_text.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

using namespace meshbus;

namespace {

constexpr std::size_t kLarge = 8 * 1024 * 1024 + 3;

/// Whether that memory asks for huge pages: the flag "hg" of its mapping in /proc/self/smaps.
bool asks_for_huge_pages(const void* memory) {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  std::ifstream maps("/proc/self/smaps");
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    std::size_t dash = 0;
    const bool is_range = line.find_first_of("0123456789abcdef") == 0 &&
                          (dash = line.find('-')) != std::string::npos && dash < 17;
    if (is_range)
      is_here = std::stoull(line, nullptr, 16) <= at &&
                at < std::stoull(line.substr(dash + 1), nullptr, 16);
    if (is_here && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}

}  // namespace

TEST_CASE("large_text: a copy has the same bytes, and room for no more than was asked for") {
  for (const std::size_t size : {std::size_t{0}, std::size_t{10}, kLarge}) {
    std::string text(size, 'a');
    if (size > 0) text.back() = 'z';
    const auto copy = copy_large(text);
    CHECK(copy == text);
    CHECK(copy.capacity() < size + 64);
  }
  // One that has the room keeps its place, and what is in it.
  std::string text = "begin";
  reserve_large(text, kLarge);
  CHECK(text == "begin");
  const char* const place = text.data();
  reserve_large(text, kLarge);
  text.append(kLarge - 5, 'x');
  CHECK(text.data() == place);
}

TEST_CASE("large_text: a large one asks for huge pages") {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) {
    MESSAGE("not tested: this kernel has no huge pages");
    return;
  }
  const auto copy = copy_large(std::string(kLarge, 'a'));
  CHECK(asks_for_huge_pages(copy.data() + kLarge / 2));
}
