#include "cli/keys/keygen_command.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/keys/join_token_command.h"
#include "cli/keys/key_folders.h"
#include "cli/support/command.h"
#include "cli/support/duration_text.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "common/base/quantity.h"
#include "common/config/config.h"
#include "common/security/join_token.h"
#include "common/security/keys.h"
#include "wire/codes_generated.h"

namespace meshbus::cli {
namespace {

namespace fs = std::filesystem;

/// What was done for one name.
struct Made {
  std::string name;
  std::string secret;
  std::string known;
  std::vector<KeyGrant> public_keys;
  bool is_new = false;
};

/// Where keys are to lie: --dir, keys.directory, else the place where they are looked for.
Result<std::string> directory_of(const KeygenArguments& arguments) {
  std::string path = arguments.directory;
  if (path.empty()) {
    const auto config = Config::load(ConfigSources::of_process());
    if (!config) return fail(config.error());
    path = config->path(keys::keys_directory);
  }
  if (path.empty()) path = KeyDirectory::default_path();
  if (path.empty())
    return fail(ErrorCode::configuration_error,
                "there is no home directory (HOME) to keep keys in: use --dir DIR");
  return fs::absolute(path).lexically_normal().string();
}

/// The public keys that are known by now; none when there is no such file.
Result<std::vector<KeyGrant>> known_keys(const std::string& path) {
  auto keys = read_key_grants(path);
  if (!keys && keys.error().code() == ErrorCode::not_exist) return std::vector<KeyGrant>();
  return keys;
}

/// A new key with the bounds that were asked for; without these the ceiling of the present one.
KeyGrant new_grant(const KeygenArguments& arguments, const std::string& key,
                   const std::vector<KeyGrant>& known) {
  KeyGrant grant(key);
  grant.expires = arguments.expires;
  if (!known.empty()) grant.ceiling = known.front().ceiling;
  if (arguments.ceiling) grant.ceiling = *arguments.ceiling;
  return grant;
}

/// The facts about that key; the key alone when there are none.
KeyGrant grant_of(const std::string& key, const std::vector<KeyGrant>& known) {
  for (const KeyGrant& grant : known) {
    if (grant.key == key) return grant;
  }
  return key;
}

Result<Made> make_one(const KeygenArguments& arguments, const KeyDirectory& directory,
                      wire::Role role, const std::string& name) {
  Made made{.name = name,
            .secret = directory.secret_path(name),
            .known = directory.public_path(role, name),
            .public_keys = {},
            .is_new = false};
  std::error_code ignored;
  const bool is_there = fs::exists(fs::symlink_status(made.secret, ignored));
  auto known = known_keys(made.known);
  if (!known) return fail(known.error());
  made.public_keys = std::move(*known);
  if (is_there) {
    const auto own = read_key_pair(made.secret);
    if (!own) return fail(own.error());
    if (arguments.retire || arguments.if_missing) {
      // The public half may be missing where only the secret was copied to.
      if (arguments.if_missing && !made.public_keys.empty()) return made;
      made.public_keys = {grant_of(own->public_key, made.public_keys)};
      if (auto written = write_key_grants(made.known, made.public_keys, name); !written)
        return fail(written.error());
      return made;
    }
    if (!arguments.rotate)
      return fail(ErrorCode::configuration_error,
                  made.secret +
                      " is there already: --if-missing leaves it, --rotate makes a new key and "
                      "lets the old one be known until --retire");
    made.public_keys = {grant_of(own->public_key, made.public_keys)};
  } else if (arguments.retire || arguments.rotate) {
    return fail(ErrorCode::configuration_error,
                "there is no key to replace: " + made.secret + " is not there");
  } else if (!made.public_keys.empty()) {
    return fail(ErrorCode::configuration_error,
                made.known +
                    " is there already, of a key that was made elsewhere; take another name, or "
                    "remove it first");
  }
  auto pair = KeyPair::make();
  if (!pair) return fail(pair.error());
  made.is_new = true;
  made.public_keys.insert(made.public_keys.begin(),
                          new_grant(arguments, pair->public_key, made.public_keys));
  // Known before it is used.
  if (auto written = write_key_grants(made.known, made.public_keys, name); !written)
    return fail(written.error());
  if (auto written = write_key_pair(made.secret, *pair, name); !written)
    return fail(written.error());
  return made;
}

Result<std::vector<Made>> make_all(const KeygenArguments& arguments, wire::Role role) {
  const auto path = directory_of(arguments);
  if (!path) return fail(path.error());
  const KeyDirectory directory(*path, {});
  const std::string public_directory =
      fs::path(directory.public_path(role, "x")).parent_path().string();
  if (auto done = make_key_directory(*path, 0700); !done) return fail(done.error());
  if (auto done = make_key_directory(*path + "/authorised", 0755); !done) return fail(done.error());
  if (auto done = make_key_directory(public_directory, 0755); !done) return fail(done.error());
  const auto lock = lock_keys(*path);
  if (!lock) return fail(lock.error());
  std::vector<Made> all;
  for (const auto& name : arguments.names) {
    auto made = make_one(arguments, directory, role, name);
    if (!made) return fail(made.error());
    all.push_back(std::move(*made));
  }
  return all;
}

/// Keys live for days: 90d, beside what is a duration everywhere.
std::string in_hours(const std::string& text) {
  if (!text.ends_with('d')) return text;
  const auto days = parse_whole<std::uint32_t>(std::string_view(text).substr(0, text.size() - 1));
  return days ? std::to_string(std::uint64_t{*days} * 24) + "h" : text;
}

Result<void> parse_expires(const std::string& word, std::optional<std::int64_t>& expires) {
  const std::string text = in_hours(word);
  if (const auto duration = parse_duration(text)) {
    if (auto problem = duration_problem(text); !problem.empty())
      return fail(ErrorCode::parse_error, std::move(problem));
    expires = unix_seconds_now() + std::chrono::ceil<std::chrono::seconds>(*duration).count();
    return {};
  }
  const auto time = parse_rfc3339(text);
  if (!time)
    return fail(ErrorCode::parse_error,
                "takes 2027-01-31, 2027-01-31T12:00:00Z or a duration like "
                "90d, not '" +
                    text + "'");
  if (*time <= unix_seconds_now())
    return fail(ErrorCode::parse_error, "takes a time to come, and " + text + " is over");
  expires = *time;
  return {};
}

int keygen(const KeygenArguments& arguments) {
  const auto role = role_of_key(arguments.role);
  for (const auto& name : arguments.names) {
    const bool is_address = name.starts_with("tcp:") || name.starts_with("unix:");
    if (is_address && *role == wire::Role::host) {
      std::cerr << "meshbus: keygen: a host's key has the name HOST or HOST:PORT, without the "
                   "transport: "
                << name.substr(name.find(':') + 1) << ", not " << name << "\n";
      return kUsage;
    }
    if (role && is_holder_name(name)) continue;
    std::cerr << "meshbus: keygen: '" << name
              << "' cannot be the name of a key: letters, digits and -_.:%[]@+ only, 100 at most"
              << (*role == wire::Role::host ? "; a host's is the HOST, or HOST:PORT, of its address"
                                            : "")
              << "\n";
    return kUsage;
  }
  if (arguments.token) {
    const auto directory = directory_of(arguments);
    if (directory) return join_token_command(arguments, *directory);
    std::cerr << "meshbus: keygen: " << directory.error().detail() << "\n";
    return kOwnFailure;
  }
  const auto all = make_all(arguments, *role);
  if (!all) {
    std::cerr << "meshbus: keygen: " << all.error().detail() << "\n";
    return kOwnFailure;
  }
  auto json = nlohmann::ordered_json::array();
  for (const auto& made : *all) {
    const KeyGrant& newest = made.public_keys.front();
    auto keys = nlohmann::ordered_json::array();
    for (const KeyGrant& grant : made.public_keys) keys.push_back(grant.key);
    const bool has_ceiling = *role == wire::Role::host;
    json.push_back(
        {{"role", arguments.role},
         {"name", made.name},
         {"new", made.is_new},
         {"secret", made.secret},
         {"public", made.known},
         {"keys", keys},
         {"expires", newest.expires ? nlohmann::ordered_json(rfc3339_text(*newest.expires))
                                    : nlohmann::ordered_json(nullptr)},
         {"ceiling", has_ceiling ? nlohmann::ordered_json(std::string(word_of(newest.ceiling)))
                                 : nlohmann::ordered_json(nullptr)}});
    if (arguments.json) continue;
    std::cout << arguments.role << " " << made.name << ": " << (made.is_new ? "new key " : "key ")
              << newest.to_string(' ')
              << (made.public_keys.size() > 1 ? " (the old one is known until --retire)" : "")
              << "\n  secret  " << made.secret
              << "  (stays on the machine that it is for)\n  public  " << made.known
              << "  (to the same place on every host"
              << (*role == wire::Role::host ? ", and on the machines of those who connect to it"
                                            : "")
              << ")\n";
    if (arguments.rotate && made.is_new)
      std::cout << "  The new secret is in use at once: whoever does not have the new public file "
                   "yet refuses it.\n  Without a shared folder rotate in a copy first "
                   "(docs/guide/security.md, Replace a key).\n";
  }
  if (arguments.json) std::cout << dump(json, 2) << "\n";
  return 0;
}

}  // namespace

void add_keygen(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<KeygenArguments>();
  auto& keygen_arguments = *arguments;
  auto& verb = commands.add(
      app, "keygen",
      {.meaning = "Make keys for connections over tcp",
       .examples = {"keygen operator alice", "keygen host node1 node2",
                    "keygen operator bob --expires 2027-01-31",
                    "keygen --token host node3 --for 1h"},
       .details =
           "ROLE is what the key allows: observer (look), client (also call and send to procs), "
           "operator (also spawn, stop, shut down), host (a broker's own). The NAME of a host's "
           "key "
           "is the HOST, or HOST:PORT, of the address that it is known by.\n\n"
           "Makes DIR/NAME.key, the secret (0600), and DIR/authorised/ROLE/NAME.pub. Copy the .pub "
           "file to the same place on every host that the key opens; that of a host goes also to "
           "the "
           "machines that connect to it. Hosts notice new and removed files within a second.\n\n"
           "A key with --expires is refused after that time, with a sentence. A host with "
           "--ceiling "
           "vouches at other hosts for no role above that one.\n\n--token prints TOKEN@ADDRESS "
           "instead, for `meshbus host --join` on a new host: it "
           "makes "
           "its own key there, and gets all that lies in authorised/. Run it as the user, and with "
           "the keys, of the host that takes it in.",
       .exit_codes = "0"},
      [arguments] { return keygen(*arguments); });
  verb.add_option("ROLE", arguments->role, "observer, client, operator or host")
      ->required()
      ->check(CLI::IsMember({"observer", "client", "operator", "host"}))
      ->type_name("");
  verb.add_option("NAME", arguments->names, "Who the key is for; several = a key for each")
      ->required();
  verb.add_option("--dir", arguments->directory,
                  "Where keys lie; default: keys.directory, or ~/.config/meshbus/keys")
      ->type_name("DIR");
  auto* if_missing =
      verb.add_flag("--if-missing", arguments->if_missing, "Leave existing keys alone");
  auto* rotate = verb.add_flag("--rotate", arguments->rotate,
                               "Make a new key; the old one stays known until --retire");
  auto* retire =
      verb.add_flag("--retire", arguments->retire, "From now on only the present key is known");
  if_missing->excludes(rotate)->excludes(retire);
  rotate->excludes(retire);
  auto* token = verb.add_flag("--token", arguments->token,
                              "Print a token with which one new host of that name may join, once");
  token->excludes(if_missing)->excludes(rotate)->excludes(retire);
  verb.add_option("--at", arguments->at,
                  "The host that takes the token; default: your only one on this machine")
      ->type_name("ADDRESS")
      ->needs(token);
  add_duration(verb, "--for", keygen_arguments.valid_for,
               "How long the token is valid, 1s to 24h; default 10m")
      ->needs(token);
  add_text(
      verb, "--expires",
      [arguments = arguments.get()](const std::string& text) {
        return parse_expires(text, arguments->expires);
      },
      "When the new key ends: a date or time in UTC, or a duration like 90d", "TIME")
      ->excludes(token);
  add_text(
      verb, "--ceiling",
      [arguments = arguments.get()](const std::string& word) {
        arguments->ceiling = role_of_key(word);
        if (arguments->ceiling && *arguments->ceiling <= wire::Role::operate) return Result<void>();
        return Result<void>(
            fail(ErrorCode::parse_error, "takes observer, client or operator, not '" + word + "'"));
      },
      "A host's key: the highest role that the host vouches for; default operator", "ROLE")
      ->excludes(token);
  verb.add_flag("--json", arguments->json, "Print JSON");
}

}  // namespace meshbus::cli
