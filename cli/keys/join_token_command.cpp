#include "cli/keys/join_token_command.h"

#include <filesystem>
#include <iostream>

#include <nlohmann/json.hpp>

#include "cli/keys/key_folders.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_hosts.h"
#include "cli/support/rank_json.h"
#include "common/security/join_token.h"
#include "wire/codes_generated.h"

namespace meshbus::cli {
namespace {

/// The host that takes the token: --at, else the only one of this user on this machine that listens
/// on tcp. Errors: configuration_error.
Result<HostAddr> taker(const std::string& at) {
  if (!at.empty()) {
    auto address = HostAddr::parse(at);
    if (!address) return fail(address.error().within("--at " + at));
    if (address->transport() != Transport::tcp || address->is_any() || address->is_wildcard())
      return fail(
          ErrorCode::configuration_error,
          "--at takes the address that other machines reach the host by, tcp:HOST:PORT, not " + at);
    return address;
  }
  std::vector<HostAddr> found;
  for (const auto& host : local_hosts()) {
    if (host.address.transport() == Transport::tcp) found.push_back(host.address);
  }
  if (found.size() == 1) return found.front();
  return fail(ErrorCode::configuration_error,
              (found.empty() ? std::string("no host of yours on this machine listens on tcp")
                             : "several hosts of yours run on this machine") +
                  "; say --at ADDRESS, which one shall take the new host in");
}

struct MadeToken {
  JoinToken token;
  HostAddr at;
  std::int64_t until;
};

Result<MadeToken> make_token(const KeygenArguments& arguments, const KeyDirectory& directory) {
  const auto& name = arguments.names.front();
  const auto at = taker(arguments.at);
  if (!at) return fail(at.error());
  const auto servers = directory.keys_of_host(*at);
  if (!servers) return fail(servers.error().within("who shall take the new host in"));
  const auto path = directory.public_path(wire::Role::host, name);
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored)))
    return fail(ErrorCode::configuration_error, "host " + name + " has a key here already: " +
                                                    path + "; remove it to let another one join");
  const auto lock = lock_keys(directory.path());
  if (!lock) return fail(lock.error());
  auto token = JoinToken::make(name, servers->front().key);
  if (!token) return fail(token.error());
  const auto until = unix_seconds_now() +
                     std::chrono::duration_cast<std::chrono::seconds>(arguments.valid_for).count();
  if (auto added =
          TokenFolder(directory).add({.name = name, .key = token->keys.public_key, .until = until});
      !added)
    return fail(added.error());
  return MadeToken{std::move(*token), *at, until};
}

}  // namespace

int join_token_command(const KeygenArguments& arguments, const std::string& directory) {
  if (arguments.role != "host" || arguments.names.size() != 1) {
    std::cerr << "meshbus: keygen: a token is for one host: meshbus keygen --token host NAME\n";
    return kUsage;
  }
  if (arguments.valid_for < std::chrono::seconds(1) ||
      arguments.valid_for > std::chrono::hours(24)) {
    std::cerr << "meshbus: keygen: --for takes 1s to 24h\n";
    return kUsage;
  }
  const auto made = make_token(arguments, KeyDirectory(directory, {}));
  if (!made) {
    std::cerr << "meshbus: keygen: " << made.error().detail() << "\n";
    return kOwnFailure;
  }
  const std::string join = made->token.to_string() + "@" + made->at.to_string();
  if (arguments.json) {
    std::cout << dump({{"role", "host"},
                       {"name", made->token.name},
                       {"join", join},
                       {"at", made->at.to_string()},
                       {"until", time_text(std::chrono::system_clock::from_time_t(made->until))}},
                      2)
              << "\n";
    return 0;
  }
  // Alone on stdout: it is to be handed on.
  std::cout << join << std::endl;
  std::cerr << "host " << made->token.name << " may join with this, once, until "
            << utc_text(made->until)
            << ". It is a secret until then. There:\n  meshbus host --join -        (and the line "
               "above on its stdin)\n";
  return 0;
}

}  // namespace meshbus::cli
