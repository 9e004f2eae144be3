#include "broker/access/key_ring.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "common/base/log.h"
#include "wire/codes_generated.h"

namespace meshbus {
namespace {

constexpr std::size_t kMostFiles = 100'000;
/// Kernels before 6.13 round the time of a change to their ticks.
constexpr std::int64_t kFreshNs = 100'000'000;

std::int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::optional<KeyRing::Seen> KeyRing::look_at(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  // The time of change (ctime) covers owner and mode, too.
  return Seen{status.st_ino,
              std::int64_t{status.st_ctim.tv_sec} * 1'000'000'000 + status.st_ctim.tv_nsec,
              status.st_size};
}

std::string KeyHolder::to_string() const {
  std::string text(word_of(role));
  for (std::size_t i = 0; i < names.size() && i < 4; ++i) text += (i == 0 ? " " : ", ") + names[i];
  return names.size() > 4 ? text + ", ..." : text;
}

std::string KeyHolder::expiry_text() const {
  const std::string who = to_string();
  return "the key of " + who + " expired at " + rfc3339_text(expires.value_or(0)) +
         "; make a new one by meshbus keygen --rotate " + who +
         ", and put its .pub in place on every host";
}

bool KeyHolder::is_host(const HostAddr& host) const {
  if (role != wire::Role::host || host.transport() != Transport::tcp) return false;
  const std::string name(host.host());
  return std::binary_search(names.begin(), names.end(), name) ||
         std::binary_search(names.begin(), names.end(), name + ":" + std::to_string(host.port()));
}

Result<KeyRing> KeyRing::load(const KeyDirectory& directory) {
  KeyRing ring(directory.path() + "/authorised");
  if (auto trusted = check_trusted(directory.path()); !trusted)
    return fail(ErrorCode::configuration_error, trusted.error().detail());
  if (auto checked = ring.check(); !checked) return fail(checked.error());
  ring.refresh();
  return ring;
}

Result<void> KeyRing::check() const {
  std::vector<std::string> paths = {path_};
  for (const auto role : kKeyRoles) paths.push_back(folder_of(role));
  for (const auto& path : paths) {
    if (auto trusted = check_trusted(path);
        !trusted && trusted.error().code() != ErrorCode::not_exist)
      return trusted;
  }
  return {};
}

void KeyRing::merge(KeyHolder& holder, const File& file, const KeyGrant& grant, std::int64_t now) {
  const bool is_expired = grant.is_expired(now);
  const auto rank = [](bool has_expired, wire::Role role) { return std::pair(!has_expired, role); };
  const auto mine = rank(is_expired, file.role), other = rank(holder.is_expired, holder.role);
  if (holder.role != wire::Role::none && mine < other) return;
  if (holder.role == wire::Role::none || mine > other)
    holder = {.role = file.role,
              .names = {},
              .ceiling = grant.ceiling,
              .expires = grant.expires,
              .is_expired = is_expired};
  holder.names.push_back(file.name);
  holder.ceiling = std::min(holder.ceiling, grant.ceiling);
  if (!holder.expires || (grant.expires && *grant.expires < *holder.expires))
    holder.expires = grant.expires;
}

const KeyHolder* KeyRing::find(std::string_view key) const {
  const auto found = holders_.find(std::string(key));
  return found == holders_.end() ? nullptr : &found->second;
}

Result<void> KeyRing::list(wire::Role role, std::map<std::string, File>& files) const {
  const std::string folder = folder_of(role);
  for (const auto& path : {path_, folder}) {
    if (auto trusted = check_trusted(path); !trusted) {
      if (trusted.error().code() == ErrorCode::not_exist) return {};
      return trusted;
    }
  }
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error);
  for (const std::filesystem::directory_iterator end;
       !error && at != end && files.size() < kMostFiles; at.increment(error)) {
    const std::string path = at->path().string(), name = at->path().stem().string();
    if (at->path().extension() != ".pub" || !is_holder_name(name)) continue;
    const auto seen = look_at(path);
    if (!seen) continue;
    const auto known = files_.find(path);
    const bool is_same = known != files_.end() && known->second.seen == *seen;
    if (is_same && !known->second.is_fresh) {
      files.insert(*known);
      continue;
    }
    auto keys = read_key_grants(path);
    // Logged once, although the file may be read again.
    if (!keys && !is_same) log::warn(keys.error().detail() + "; it lets nobody in");
    const bool is_fresh = wall_ns() - seen->changed_ns < kFreshNs;
    files.emplace(
        path, File{*seen, role, name, keys ? std::move(*keys) : std::vector<KeyGrant>(), is_fresh});
  }
  if (error && error != std::errc::no_such_file_or_directory)
    return fail(ErrorCode::configuration_error,
                folder + ": " + error.message() + "; chmod a+rx " + folder);
  return {};
}

void KeyRing::keep_known(wire::Role role, std::map<std::string, File>& files) const {
  for (const auto& [path, file] : files_) {
    if (file.role == role && look_at(path) == file.seen) files.emplace(path, file);
  }
}

bool KeyRing::refresh() {
  std::map<std::string, File> files;
  std::string complaint;
  for (const auto role : kKeyRoles) {
    std::map<std::string, File> of_role;
    if (const auto listed = list(role, of_role); !listed) {
      of_role.clear();
      keep_known(role, of_role);
      const std::string& detail = listed.error().detail();
      if (complaint.find(detail) == std::string::npos)
        complaint += (complaint.empty() ? "" : "; ") + detail;
    }
    files.merge(of_role);
  }
  if (!complaint.empty() && complaint != complaint_)
    log::error("new keys let nobody in, and known ones only while their files are seen: " +
               complaint);
  complaint_ = std::move(complaint);
  std::unordered_map<std::string, KeyHolder> holders;
  const std::int64_t now = wall_ns() / 1'000'000'000;
  for (const auto& [path, file] : files) {
    for (const auto& grant : file.keys) merge(holders[grant.key], file, grant, now);
  }
  for (auto& [key, holder] : holders) std::sort(holder.names.begin(), holder.names.end());
  files_ = std::move(files);
  const bool is_changed = holders != holders_;
  holders_ = std::move(holders);
  return is_changed;
}

}  // namespace meshbus
