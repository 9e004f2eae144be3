#include "broker/access/admission.h"

#include <algorithm>

#include "common/base/bytes.h"
#include "common/security/launcher_name.h"
#include "common/wire/control.h"
#include "meshbus/name.h"
#include "wire/bus_generated.h"

namespace meshbus {

using wire::Role;

namespace {

constexpr std::string_view kLauncherBase = "client";

bool is_launcher_name(const ProcName& name) {
  const auto parsed = Name::parse(name.to_string());
  return parsed && parsed->base() == kLauncherBase && !parsed->is_plain();
}

/// "launcher client-2bGqGa6bY7cP"
std::string describe(const wire::Hello& hello) {
  const std::string kind = wire::EnumNamePeerKind(hello.kind());
  return (hello.kind() == wire::PeerKind::link ? "the broker of"
          : kind.empty()                       ? "peer"
                                               : kind) +
         " " + cut_text(hello.peer()->str(), 256);
}

Identity identity_of(const ProcId& proc, const wire::Hello& hello, Role role) {
  return {.text = proc.to_string(),
          .key = proc.key(),
          .kind = hello.kind(),
          .role = role,
          .incarnation = hello.incarnation(),
          .pid = hello.pid()};
}

}  // namespace

Credentials Credentials::of_process(uid_t uid, pid_t pid) {
  return {.uid = uid, .address = "uid " + std::to_string(uid) + ", pid " + std::to_string(pid)};
}

Credentials Credentials::of_address(std::string_view address) {
  return {.uid = std::nullopt,
          .address = address.empty() ? "an unknown address" : std::string(address)};
}

std::string Credentials::principal(wire::Role role) const {
  if (uid) return "uid " + std::to_string(*uid);
  return key.empty() ? address : std::string(word_of(role)) + " " + key;
}

Result<Identity> Admission::admit(const wire::Hello& hello, const Credentials& credentials) const {
  const auto version =
      common_version(describe(hello), Protocol::of(hello),
                     "the broker of " + options_.host.to_string(), options_.protocol);
  if (!version) return fail(version.error());
  if (hello.incarnation() == 0)
    return fail(ErrorCode::unauthorised, "the Hello has no incarnation");
  auto identity = identify(hello, credentials);
  if (identity) {
    identity->version = *version;
    identity->capabilities = hello.capabilities();
    if (credentials.holder) {
      identity->user = credentials.holder->to_string();
      identity->ceiling = credentials.holder->ceiling;
    }
    identity->key_text = credentials.key;
    identity->address = credentials.address;
    identity->principal = credentials.principal(identity->role);
  }
  return identity;
}

Result<Identity> Admission::identify(const wire::Hello& hello,
                                     const Credentials& credentials) const {
  switch (hello.kind()) {
    case wire::PeerKind::launcher: return admit_launcher(hello, credentials);
    case wire::PeerKind::agent: return admit_agent(hello, credentials);
    case wire::PeerKind::proc: return admit_proc(hello, credentials);
    case wire::PeerKind::controller: return admit_controller(hello, credentials);
    case wire::PeerKind::link: return admit_link(hello, credentials);
  }
  return fail(ErrorCode::unauthorised,
              "a peer of unknown kind " + std::to_string(static_cast<int>(hello.kind())));
}

Result<ProcId> Admission::claimed_proc(const wire::Hello& hello) const {
  const std::string_view text = hello.peer()->string_view();
  if (text.find(',') == std::string_view::npos) {
    auto name = ProcName::parse(text);
    if (!name)
      return fail(ErrorCode::unauthorised,
                  "the peer's name cannot be read: " + name.error().detail());
    return ProcId(options_.host, *name);
  }
  auto proc = ProcId::parse(text);
  if (!proc)
    return fail(ErrorCode::unauthorised,
                "the peer's address cannot be read: " + proc.error().detail());
  if (proc->host() != options_.host)
    return fail(ErrorCode::identity_mismatch, "the peer is of host " + proc->host().to_string() +
                                                  ", this broker serves " +
                                                  options_.host.to_string());
  return *proc;
}

Result<Role> Admission::check_user(const Credentials& credentials) const {
  if (credentials.uid) {
    if (*credentials.uid == options_.uid || *credentials.uid == 0) return Role::operate;
    return fail(ErrorCode::unauthorised, "a process of user " + std::to_string(*credentials.uid) +
                                             " connects to a host of user " +
                                             std::to_string(options_.uid) +
                                             "; only that user and root may");
  }
  if (options_.insecure) return Role::operate;
  if (credentials.holder && credentials.holder->is_expired)
    return fail(ErrorCode::unauthorised, credentials.holder->expiry_text());
  // A host's key may do what the host may vouch for.
  if (credentials.holder) return std::min(credentials.holder->role, credentials.holder->ceiling);
  if (!credentials.key.empty())
    return fail(ErrorCode::unauthorised, "the key " + credentials.key + " is no longer authorised");
  return fail(ErrorCode::unauthorised,
              "a connection over tcp without a key proves nothing about its user");
}

Result<void> Admission::check_is_here(const Credentials& credentials) const {
  if (credentials.uid || options_.insecure) return {};
  return fail(ErrorCode::unauthorised,
              "agents and procs connect by the unix socket of their host, not over tcp");
}

Result<void> Admission::check_token(const ProcId& proc, const wire::Hello& hello) const {
  const auto* token = hello.token();
  if (token == nullptr) return fail(ErrorCode::unauthorised, proc.to_string() + " brings no token");
  if (!tokens_ || !tokens_->verify(proc.to_string(), hello.incarnation(),
                                   to_vector(bytes_of(token->data(), token->size()))))
    return fail(
        ErrorCode::unauthorised,
        proc.to_string() +
            " brings a token that this host's agent did not make for that proc and incarnation");
  return {};
}

Result<Identity> Admission::admit_launcher(const wire::Hello& hello,
                                           const Credentials& credentials) const {
  auto proc = claimed_proc(hello);
  if (!proc) return fail(proc.error());
  if (!is_launcher_name(proc->name()))
    return fail(ErrorCode::unauthorised,
                "a launcher is called client-UUID, not \"" + proc->name().to_string() + "\"");
  const auto role = check_user(credentials);
  if (!role) return fail(role.error());
  if (auto checked = check_name(*proc, hello, *role); !checked) return fail(checked.error());
  return identity_of(*proc, hello, *role);
}

Result<void> Admission::check_name(const ProcId& proc, const wire::Hello& hello, Role role) const {
  const auto name = Name::parse(proc.name().to_string());
  const auto* proof = hello.token();
  if (role >= Role::operate ||
      (name && proof != nullptr && is_drawn(*name, bytes_of(proof->data(), proof->size()))))
    return {};
  return fail(ErrorCode::unauthorised,
              "observers and clients may not choose their name, and nothing proves that " +
                  proc.name().to_string() + " was drawn; is the library older than this broker?");
}

Result<Identity> Admission::admit_controller(const wire::Hello& hello,
                                             const Credentials& credentials) const {
  auto proc = claimed_proc(hello);
  if (!proc) return fail(proc.error());
  if (proc->name() != ProcName(Name::controller()))
    return fail(ErrorCode::unauthorised,
                "a controller is called controller, not \"" + proc->name().to_string() + "\"");
  const auto role = check_user(credentials);
  if (!role) return fail(role.error());
  if (*role < Role::operate)
    return fail(ErrorCode::unauthorised, "a controller needs the key of an operator, not of " +
                                             credentials.holder->to_string());
  return identity_of(*proc, hello, Role::operate);
}

Result<Identity> Admission::admit_agent(const wire::Hello& hello,
                                        const Credentials& credentials) const {
  auto proc = claimed_proc(hello);
  if (!proc) return fail(proc.error());
  if (*proc != host_service(options_.host))
    return fail(ErrorCode::unauthorised,
                "a host agent is called service, not \"" + proc->name().to_string() + "\"");
  if (auto checked = check_token(*proc, hello); !checked) return fail(checked.error());
  if (auto checked = check_is_here(credentials); !checked) return fail(checked.error());
  if (auto checked = check_user(credentials); !checked) return fail(checked.error());
  return identity_of(*proc, hello, Role::host);
}

Result<Identity> Admission::admit_proc(const wire::Hello& hello,
                                       const Credentials& credentials) const {
  auto proc = claimed_proc(hello);
  if (!proc) return fail(proc.error());
  if (Name::is_reserved(proc->name().to_string()) || is_launcher_name(proc->name()))
    return fail(ErrorCode::unauthorised,
                "a proc cannot be called \"" + proc->name().to_string() + "\"");
  // The token is the proof; the user may be another one when the proc was started as that.
  if (auto checked = check_token(*proc, hello); !checked) return fail(checked.error());
  if (auto checked = check_is_here(credentials); !checked) return fail(checked.error());
  return identity_of(*proc, hello, Role::proc);
}

Result<Identity> Admission::admit_link(const wire::Hello& hello,
                                       const Credentials& credentials) const {
  auto host = HostAddr::parse(hello.peer()->string_view());
  if (!host)
    return fail(ErrorCode::unauthorised,
                "the other broker's address cannot be read: " + host.error().detail());
  if (host->is_any() || host->is_wildcard())
    return fail(ErrorCode::unauthorised,
                "the other broker's address " + host->to_string() + " is nobody's");
  if (*host == options_.host)
    return fail(ErrorCode::identity_mismatch, "the other broker claims to serve " +
                                                  host->to_string() +
                                                  ", which is this broker's own address");
  if (auto checked = check_user(credentials); !checked) return fail(checked.error());
  if (credentials.holder && !credentials.holder->is_host(*host))
    return fail(ErrorCode::unauthorised, "the link claims to come from the broker of " +
                                             host->to_string() + ", and its key is that of " +
                                             credentials.holder->to_string());
  return Identity{.text = host->to_string(),
                  .key = host->key(),
                  .kind = hello.kind(),
                  .role = Role::broker,
                  .incarnation = hello.incarnation(),
                  .pid = hello.pid()};
}

}  // namespace meshbus
