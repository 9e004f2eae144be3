#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/support/command.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// What is left to ask with when something else, finding the hosts for instance, has taken all the
/// time.
inline constexpr std::chrono::milliseconds kLeastTime{200};

/// A host of this user on this machine.
struct LocalHost {
  /// By which it is known, to itself too.
  HostAddr address;
  /// By which it is reached, without keys.
  HostAddr socket;
};
std::vector<LocalHost> local_hosts();

/// Hosts that are meant, and how to come to them.
struct FoundHosts {
  std::vector<HostAddr> addresses;
  /// Where they were named; empty: nowhere, these are the hosts of this machine.
  std::string source;
  /// The settings of the context that names them.
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<LocalHost> local;

  /// A place on the bus to look for them from. Errors: configuration_error, io_error.
  Result<Context> make_context(ContextOptions options = {}) const;
  /// Those that can be asked together. Hosts of this machine that are known by tcp need not reach
  /// each other (each may have keys of its own), nor those that are known by their unix sockets:
  /// each is a part of its own then.
  std::vector<FoundHosts> parts() const;
};
/// The hosts that are meant: see choose_hosts(); else every host of this user on this machine. Or,
/// when there is nothing to go on with (it has been said on stderr), the exit code.
std::variant<FoundHosts, int> find_hosts(const HostChoice& choice);
/// Says on stderr that there is no host. Returns the exit code.
int no_host();

/// Which of the hosts have to answer.
enum class Need { all, any };
/// Attached to, together. Errors: those of HostMesh::attach(), with where the hosts were named.
Result<HostMesh> attach(Context& context, const FoundHosts& hosts, const HostChoice& choice,
                        Need need);
/// The report of a host that cannot be attached to, and why.
HostReport silent_host(const HostAddr& host, const Error& error);
/// False: the host has answered, with a refusal, or could not be asked at all.
bool is_silence(ErrorCode code);
/// Why a host cannot be used: `does not answer: PROBLEM`, or just the problem if it is no silence.
std::string problem_words(const HostReport& host);

struct AttachedHosts {
  Context context;
  HostMesh hosts;
  std::chrono::milliseconds took;
  /// The settings of the context that names them.
  std::vector<std::pair<std::string, std::string>> settings;
};
/// The hosts that are meant, attached to; they have to be of one part. Or the exit code, as with
/// find_hosts().
std::variant<AttachedHosts, int> attach_hosts(const HostChoice& choice, Need need);

}  // namespace meshbus::cli
