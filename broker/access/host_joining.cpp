#include "broker/access/host_joining.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/base/log.h"
#include "common/wire/frame.h"
#include "wire/bus_generated.h"

namespace meshbus {

Result<std::string> HostJoining::check(const TokenRecord& token, const wire::Hello& hello) const {
  const auto version = common_version("the new host " + token.name, Protocol::of(hello),
                                      "the broker of " + host_.to_string(), protocol_);
  if (!version) return fail(version.error());
  const auto address = HostAddr::parse(hello.peer()->string_view());
  if (!address || !KeyHolder{.role = wire::Role::host, .names = {token.name}}.is_host(*address))
    return fail(ErrorCode::identity_mismatch,
                "it is for that host alone, and the address of the new host is " +
                    cut_text(hello.peer()->str(), 256));
  const auto* sent = hello.token();
  const std::string key =
      sent == nullptr ? std::string() : std::string(bytes_of(sent->data(), sent->size()));
  if (!is_curve_key(key))
    return fail(ErrorCode::malformed_message, "no public key of the new host came with it");
  if (token.until <= unix_seconds_now())
    return fail(ErrorCode::unauthorised, "it expired at " + utc_text(token.until) +
                                             "; meshbus keygen --token makes another");
  return key;
}

Result<std::string> HostJoining::take(const TokenRecord& token, const wire::Hello& hello,
                                      const std::string& address) {
  const auto key = check(token, hello);
  if (!key) return fail(key.error());
  const KeyDirectory& directory = keys_.directory();
  const std::string path = directory.public_path(wire::Role::host, token.name);
  const auto known = read_public_keys(path);
  const bool is_known = known && std::find(known->begin(), known->end(), *key) != known->end();
  if (token.is_used && !is_known)
    return fail(ErrorCode::unauthorised,
                "it has been used, at " + utc_text(token.used_at) +
                    ", and a token is good once. If that was not you, somebody else has it: "
                    "remove " +
                    path + "; meshbus keygen --token makes another");
  if (!is_known && (known || known.error().code() != ErrorCode::not_exist))
    return fail(ErrorCode::configuration_error,
                "a host of that name has another key there already; to replace it, remove "
                "authorised/host/" +
                    token.name + ".pub there");
  auto all = read_known_keys(directory);
  // The same host asks again: our answer did not reach it.
  if (!is_known) all.push_back({wire::Role::host, token.name, {*key}});
  std::string text = known_keys_to_text(all);
  if (text.size() > kBodyLimit)
    return fail(
        ErrorCode::too_large,
        "there are more keys than one message takes; copy the folder authorised from there");
  if (!token.is_used) {
    if (auto let = let_in(token, *key, is_known ? "" : path, address); !let)
      return fail(let.error());
  }
  return text;
}

Result<void> HostJoining::let_in(const TokenRecord& token, const std::string& key,
                                 const std::string& path, const std::string& address) {
  const TokenFolder folder(keys_.directory());
  // First: of several hosts that bring it at once, to this broker or to others with the same keys,
  // one gets further.
  if (auto used = folder.use(token); !used)
    return used.error().code() == ErrorCode::not_exist
               ? fail(ErrorCode::unauthorised, "it has been used just now, or taken back")
               : used;
  if (!path.empty()) {
    ::mkdir(std::filesystem::path(path).parent_path().c_str(), 0755);
    if (auto written = write_public_keys(path, {key}, token.name); !written) {
      folder.give_back(token);
      return written;
    }
  }
  log::warn("host " + token.name + " has joined, from " + address + ", with the key " + key);
  keys_.refresh();
  return {};
}

}  // namespace meshbus
