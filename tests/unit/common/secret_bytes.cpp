#include "common/security/secret_bytes.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

using namespace meshbus;

namespace {

/// The flags of the mapping that this address lies in, as in /proc/self/smaps.
std::string flags_at(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool is_there = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> begin >> dash >> end && dash == '-')
      is_there = begin <= wanted && wanted < end;
    if (is_there && line.starts_with("VmFlags:")) return line;
  }
  return {};
}

}  // namespace

TEST_CASE("secret_bytes: in no core dump, never written again, and its source is overwritten") {
  std::string text = "a secret that is long enough to have memory of its own";
  const char* const before = text.data();
  const std::string copy = text;
  const SecretBytes secret(std::move(text));
  CHECK(std::string_view(reinterpret_cast<const char*>(secret.data()), secret.size()) == copy);
  CHECK(std::string_view(before, 8) == std::string_view("\0\0\0\0\0\0\0\0", 8));
  const auto shared = secret;  // NOLINT(performance-unnecessary-copy-initialization)
  CHECK(shared.data() == secret.data());
  const std::string flags = flags_at(secret.data());
  CAPTURE(flags);
  CHECK(flags.find(" dd") != std::string::npos);
  CHECK(flags.find(" wr") == std::string::npos);
}
