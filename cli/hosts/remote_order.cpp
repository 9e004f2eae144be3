#include "cli/hosts/remote_order.h"

#include <nlohmann/json.hpp>

namespace meshbus::cli {
namespace {

/// The value becomes a line of a key file.
bool is_key_text(const std::string& text) {
  return text.find_first_of("\r\n") == std::string::npos;
}

}  // namespace

Result<RemoteLine> RemoteLine::parse(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return fail(ErrorCode::malformed_message,
                "meshbus host --remote is for launchers: see meshbus run --hosts ssh:...");
  RemoteLine read;
  for (const auto& [key, value] : json.items()) {
    if (value.is_string()) read.texts[key] = value.get<std::string>();
    if (!value.is_array()) continue;
    for (const auto& one : value) {
      if (one.is_string()) read.lists[key].push_back(one.get<std::string>());
    }
  }
  return read;
}

std::string RemoteLine::text(const std::string& key) const {
  const auto found = texts.find(key);
  return found == texts.end() ? std::string() : found->second;
}

std::vector<std::string> RemoteLine::list(const std::string& key) const {
  const auto found = lists.find(key);
  return found == lists.end() ? std::vector<std::string>() : found->second;
}

Result<void> apply_remote_order(const RemoteLine& order, const RemoteLine& hosts,
                                const HostAddr& own, WardenOptions& options) {
  const auto host_public = order.text("host_public_key");
  const auto host_secret = order.text("host_secret_key");
  const auto launcher_public = order.text("launcher_public_key");
  for (const auto& key : {host_public, host_secret, launcher_public}) {
    if (!is_key_text(key))
      return fail(ErrorCode::malformed_message, "the launcher sends a key that is none");
  }
  options.advertise = own.to_string();
  options.binds = {options.advertise};
  for (auto& setting : order.list("settings")) options.settings.push_back(std::move(setting));
  const auto containment = order.text("containment");
  if (containment == "cgroup") options.containment = Containment::cgroup;
  if (containment == "pidns") options.containment = Containment::pid_namespace;
  if (containment == "sweep") options.containment = Containment::sweep;
  options.key_files = {
      {"own.key", "public-key " + host_public + "\nsecret-key " + host_secret + "\n"},
      {"authorised/operator/launcher.pub", "public-key " + launcher_public + "\n"}};
  for (const auto& host : hosts.list("hosts")) {
    // It becomes part of a path.
    if (const auto parsed = HostAddr::tcp(host, 1);
        !parsed || parsed->host().find('/') != std::string_view::npos)
      return fail(ErrorCode::malformed_message, "the launcher names a host that is none: " + host);
    options.key_files.emplace_back("authorised/host/" + host + ".pub",
                                   "public-key " + host_public + "\n");
  }
  return {};
}

}  // namespace meshbus::cli
