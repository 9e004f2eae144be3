#include "cli/keys/join_command.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>

#include "cli/keys/key_folders.h"
#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"
#include "common/bus/session.h"
#include "common/config/config.h"
#include "common/loop/reactor.h"
#include "common/security/join_token.h"
#include "common/security/token.h"
#include "wire/bus_generated.h"

namespace meshbus::cli {
namespace {

constexpr std::uint16_t kStandardPort = 7420;
constexpr std::chrono::seconds kJoinLimit{30};

/// What `meshbus keygen --token` has printed.
struct Invitation {
  JoinToken token;
  HostAddr at;
};

/// Errors: parse_error, without what is secret.
Result<Invitation> parse_invitation(const std::string& text) {
  const auto sign = text.rfind('@');
  if (sign == std::string::npos)
    return fail(ErrorCode::parse_error, "expected TOKEN@ADDRESS: there is no @ in it");
  auto token = JoinToken::parse(std::string_view(text).substr(0, sign));
  if (!token) return fail(token.error());
  auto at = HostAddr::parse(text.substr(sign + 1));
  if (!at) return fail(at.error().within("the address behind @"));
  if (at->transport() != Transport::tcp)
    return fail(ErrorCode::parse_error, "the address behind @ is no tcp:HOST:PORT");
  return Invitation{std::move(*token), std::move(*at)};
}

Result<std::vector<Invitation>> read_invitations(const std::vector<std::string>& words) {
  std::vector<Invitation> all;
  for (std::string word : words) {
    if (word == "-") std::getline(std::cin, word);
    while (!word.empty() && std::isspace(static_cast<unsigned char>(word.back())) != 0)
      word.pop_back();
    auto one = parse_invitation(word);
    if (!one) return fail(one.error());
    if (!all.empty() && all.front().token.name != one->token.name)
      return fail(ErrorCode::configuration_error, "one token is for host " +
                                                      all.front().token.name +
                                                      ", another one for " + one->token.name);
    all.push_back(std::move(*one));
  }
  return all;
}

/// The address of a host of that name, HOST or HOST:PORT. Errors: parse_error.
Result<HostAddr> address_of_name(const std::string& name, std::uint16_t port) {
  // An IPv6 address has colons, too.
  auto address = HostAddr::tcp(name, port);
  return address ? address : HostAddr::parse("tcp:" + name);
}

/// The address that this host will be known by; completes the options by what the token says.
/// Errors: configuration_error, parse_error.
Result<HostAddr> choose_address(const std::string& name, WardenOptions& options) {
  std::string said = options.advertise;
  std::optional<HostAddr> wildcard;
  for (const auto& bind : options.binds) {
    const auto address = HostAddr::parse(bind);
    if (!address || address->transport() != Transport::tcp) continue;
    if (address->is_wildcard()) {
      wildcard = *address;
    } else if (said.empty()) {
      said = bind;
    }
  }
  if (said.empty()) {
    const auto address = address_of_name(name, wildcard ? wildcard->port() : kStandardPort);
    if (!address)
      return fail(address.error().within("what host " + name +
                                         " is known by; say it: --advertise ADDRESS"));
    options.advertise = said = address->to_string();
    if (!wildcard) options.binds.push_back("tcp:*:" + std::to_string(address->port()));
  }
  auto own = HostAddr::parse(said);
  if (!own) return fail(own.error().within(said));
  const std::string host(own->host());
  if (own->transport() != Transport::tcp ||
      (host != name && host + ":" + std::to_string(own->port()) != name))
    return fail(ErrorCode::configuration_error,
                "the token is for host " + name + ", and this one would be known as " + said +
                    "; make one for that name, or say --advertise with the token's");
  return own;
}

/// Where this host's keys are, and which one is its own. Errors: configuration_error.
Result<KeyDirectory> choose_directory(const WardenOptions& options, std::string& own_path,
                                      const std::string& name) {
  const auto config = load_config(options.settings);
  if (!config) return fail(config.error());
  std::string path = config->path(keys::keys_directory);
  if (path.empty()) path = KeyDirectory::default_path();
  if (path.empty() || path == "/dev/null")
    return fail(ErrorCode::configuration_error,
                "there is no directory for keys: use --set keys.directory=DIR");
  own_path = config->path(keys::keys_own);
  KeyDirectory directory(path, own_path);
  if (own_path.empty()) own_path = directory.secret_path(name);
  return directory;
}

/// Asks one host, in its own words (schemas/bus.fbs): a Hello by the token's key, answered by the
/// keys that it knows. Errors: what it says; identity_mismatch (it is not the one that made the
/// token), host_unreachable.
Result<std::vector<KnownKeys>> ask_to_join(const Invitation& invitation, const HostAddr& own,
                                           const std::string& public_key) {
  Reactor reactor;
  Result<std::vector<KnownKeys>> outcome;
  bool is_over = false;
  std::string trouble;
  const auto end = [&](Result<std::vector<KnownKeys>> result) {
    outcome = std::move(result);
    is_over = true;
  };
  Session::Options options;
  options.endpoint = invitation.at.zmq_endpoint();
  options.hello.kind = wire::PeerKind::link;
  options.hello.peer = own.to_string();
  options.hello.incarnation = random_u64();
  options.hello.pid = static_cast<std::uint32_t>(::getpid());
  options.hello.token = to_vector(public_key);
  options.keys = [&]() -> Result<CurveKeys> {
    const auto& token = invitation.token;
    return CurveKeys{
        token.keys.public_key, token.keys.secret_key, {token.server_key}, "of this token"};
  };
  Session::Events events;
  // A host that knows tokens answers with keys, not with a welcome.
  events.on_welcome = [&](const wire::Welcome&) {
    end(fail(ErrorCode::malformed_message,
             "it does not know what a token is; which release is it?"));
  };
  events.on_lost = [&](const std::string& reason) { trouble = reason; };
  events.on_trouble = [&](const std::string& reason) { trouble = reason; };
  Session* session = nullptr;
  events.on_refused = [&](const Error& error) {
    // In its handshake it tells no more than that.
    const bool is_told = session->connected_at() != std::chrono::system_clock::time_point();
    end(fail(
        error.code(),
        error.detail() +
            (is_told
                 ? ""
                 : "; a token is good once, for a short time, at the host that it was made for: "
                   "meshbus keygen --token makes another")));
  };
  events.on_message = [&](const FrameReader::Message& message) {
    if (message.envelope.kind() == wire::Kind::message) end(parse_known_keys(message.body));
  };
  Session asking(reactor, std::move(options), std::move(events));
  session = &asking;
  reactor.after(kJoinLimit, [&] {
    end(fail(ErrorCode::host_unreachable, "no answer from " + invitation.at.to_string() +
                                              " within " + std::to_string(kJoinLimit.count()) +
                                              " s: " + trouble));
  });
  reactor.run_until([&] { return is_over; });
  return outcome;
}

bool has_key(const std::vector<KeyGrant>& grants, const std::string& key) {
  return std::any_of(grants.begin(), grants.end(),
                     [&](const KeyGrant& grant) { return grant.key == key; });
}

bool have_common_key(const std::vector<KeyGrant>& a, const std::vector<KeyGrant>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const KeyGrant& grant) { return has_key(b, grant.key); });
}

/// What another host grants, within the bounds that the same key has here.
std::vector<KeyGrant> within(std::vector<KeyGrant> theirs, const std::vector<KeyGrant>& here) {
  for (KeyGrant& grant : theirs) {
    for (const KeyGrant& known : here) {
      if (known.key != grant.key) continue;
      grant.ceiling = std::min(grant.ceiling, known.ceiling);
      if (!grant.expires || (known.expires && *known.expires < *grant.expires))
        grant.expires = known.expires;
    }
  }
  return theirs;
}

/// Lets all of these be known here. Errors: configuration_error (one of them is somebody else here;
/// nothing was written), io_error.
Result<void> write_known(const KeyDirectory& directory, const std::vector<KnownKeys>& known) {
  for (const auto& one : known) {
    const auto path = directory.public_path(one.role, one.name);
    const auto there = read_key_grants(path);
    if (!there && there.error().code() != ErrorCode::not_exist) return fail(there.error());
    if (there && !have_common_key(*there, one.keys))
      return fail(ErrorCode::configuration_error,
                  path +
                      " is there already, and has another key than the others know; remove it, or "
                      "keep these keys elsewhere "
                      "(--set keys.directory=DIR), and give the same command again");
  }
  for (const auto& one : known) {
    const auto path = directory.public_path(one.role, one.name);
    const auto there = read_key_grants(path);
    if (auto written =
            write_key_grants(path, there ? within(one.keys, *there) : one.keys, one.name);
        !written)
      return written;
  }
  return {};
}

/// The pair that is there, or a new one. Errors: configuration_error, io_error.
Result<KeyPair> own_pair(const std::string& path, const std::string& name, bool& is_new) {
  std::error_code ignored;
  is_new = !std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
  if (!is_new) return read_key_pair(path);
  auto pair = KeyPair::make();
  if (!pair) return pair;
  // Before anybody knows it: it would be of no use without its secret.
  if (auto written = write_key_pair(path, *pair, name); !written) return fail(written.error());
  return pair;
}

/// Whether this has been done before: then nobody need be asked, so that the same command starts
/// this host again.
bool has_joined(const Invitation& invitation, const KeyDirectory& directory, const KeyPair& pair) {
  bool is_known = false, knows = false;
  for (const auto& one : read_known_keys(directory)) {
    if (one.role != wire::Role::host) continue;
    is_known =
        is_known || (one.name == invitation.token.name && has_key(one.keys, pair.public_key));
    knows = knows || has_key(one.keys, invitation.token.server_key);
  }
  return is_known && knows;
}

Result<void> join_one(const Invitation& invitation, const HostAddr& own,
                      const KeyDirectory& directory, const KeyPair& pair) {
  if (has_joined(invitation, directory, pair)) return {};
  auto known = ask_to_join(invitation, own, pair.public_key);
  if (!known) return fail(known.error());
  // A host that calls itself otherwise is reached by this name all the same.
  const bool has_taker = std::any_of(known->begin(), known->end(), [&](const KnownKeys& one) {
    return one.role == wire::Role::host && has_key(one.keys, invitation.token.server_key);
  });
  if (!has_taker)
    known->push_back(
        {wire::Role::host, std::string(invitation.at.host()), {invitation.token.server_key}});
  if (auto written = write_known(directory, *known); !written) return written;
  std::map<wire::Role, std::size_t> counts;
  for (const auto& one : *known) ++counts[one.role];
  std::string all;
  for (const auto& [role, count] : counts)
    all += (all.empty() ? "" : ", ") + std::to_string(count) + " of role " +
           std::string(word_of(role));
  std::cerr << "meshbus: host " << invitation.token.name << " is known to "
            << invitation.at.to_string() << " now, and knows keys: " << all << "\n";
  return {};
}

Result<void> join_all(const std::vector<Invitation>& invitations, const HostAddr& own,
                      const KeyDirectory& directory, const std::string& own_path) {
  const auto& name = invitations.front().token.name;
  if (auto made = make_key_directories(directory.path()); !made) return made;
  const auto lock = lock_keys(directory.path());
  if (!lock) return fail(lock.error());
  bool is_new = false;
  const auto pair = own_pair(own_path, name, is_new);
  if (!pair) return fail(pair.error());
  bool is_in = false;
  for (const auto& invitation : invitations) {
    auto joined = join_one(invitation, own, directory, *pair);
    is_in = is_in || joined.has_value();
    if (joined) continue;
    // Where it may be known by now, the same command again needs the same key.
    const bool is_refused = joined.error().code() == ErrorCode::unauthorised ||
                            joined.error().code() == ErrorCode::identity_mismatch;
    if (is_new && is_refused && !is_in) ::unlink(own_path.c_str());
    return fail(joined.error());
  }
  return {};
}

}  // namespace

std::optional<int> join_hosts(const std::vector<std::string>& words, WardenOptions& options) {
  if (words.empty()) return std::nullopt;
  const auto invitations = read_invitations(words);
  if (!invitations) {
    complain("--join: " + invitations.error().detail());
    return kUsage;
  }
  const auto& name = invitations->front().token.name;
  const auto own = choose_address(name, options);
  if (!own) {
    complain("--join: " + own.error().detail());
    return kUsage;
  }
  std::string own_path;
  const auto directory = choose_directory(options, own_path, name);
  if (!directory) {
    complain("--join: " + directory.error().detail());
    return kUsage;
  }
  if (auto joined = join_all(*invitations, *own, *directory, own_path); !joined) {
    complain("this host cannot join: " + joined.error().to_string());
    return kUnavailable;
  }
  return std::nullopt;
}

}  // namespace meshbus::cli
