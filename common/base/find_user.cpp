#include "common/base/find_user.h"

#include <grp.h>
#include <pwd.h>

#include <charconv>
#include <cstdint>
#include <optional>

namespace meshbus {
namespace {

std::optional<uid_t> parse_number(const std::string& text) {
  std::uint32_t number = 0;
  const auto* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

}  // namespace

Result<UserIds> find_user(const std::string& text) {
  const auto number = parse_number(text);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): programs have one thread then.
  const passwd* found = number ? ::getpwuid(*number) : ::getpwnam(text.c_str());
  if (found == nullptr && (!number || *number == UINT32_MAX))
    return fail(ErrorCode::parse_error,
                "this machine knows no user '" + text + "'; a number needs no name");
  if (found == nullptr) return UserIds{*number, *number};
  UserIds ids{found->pw_uid, found->pw_gid, std::vector<gid_t>(64)};
  int count = static_cast<int>(ids.groups.size());
  while (::getgrouplist(found->pw_name, found->pw_gid, ids.groups.data(), &count) < 0)
    ids.groups.resize(static_cast<std::size_t>(count) + 64);
  ids.groups.resize(static_cast<std::size_t>(count));
  return ids;
}

}  // namespace meshbus
