// HostMesh::inside(): procs of one host mesh become the hosts of another one.
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "client/src/allocate/inner_talk.h"
#include "client/src/allocate/proc_allocation.h"
#include "client/src/allocate/process_allocation.h"
#include "client/src/base/time_left.h"
#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "client/src/launch/remote_start.h"
#include "common/base/quantity.h"
#include "common/security/keys.h"

namespace meshbus {
namespace {

using Clock = InnerTalk::Clock;
using HostChange = AllocationEvent::Kind;

/// What a host gets beyond the grace of its procs, to end in order.
constexpr std::chrono::seconds kBeyondGrace{5};
/// The hosts are ready: they are asked, whatever of the time has gone already.
constexpr std::chrono::milliseconds kLeastInnerTime{1000};
/// What the end of those that did start may take when one did not.
constexpr std::chrono::milliseconds kUndoGrace{2000};

/// The keys of one launch.
struct LaunchKeys {
  KeyPair hosts;
  KeyPair launcher;
};

/// One start of hosts inside of procs.
class InnerStart {
 public:
  InnerStart(ContextCore& core, const InsideOptions& options, bool is_over_tcp)
      : core_(core), options_(options), is_over_tcp_(is_over_tcp) {}

  /// How each of `count` procs begins. Errors: configuration_error.
  Result<ProcSpec> spec(std::uint64_t count) const {
    auto program = options_.host.program;
    if (!is_over_tcp_ && count != 0) {
      auto found = find_meshbus_program(program);
      if (!found) return fail(found.error());
      program = std::move(*found);
    }
    ProcSpec spec;
    spec.command = options_.wrapper;
    spec.command.push_back(program.empty() ? "meshbus" : program);
    spec.command.emplace_back("host");
    const auto add = [&spec](std::initializer_list<std::string> words) {
      spec.command.insert(spec.command.end(), words);
    };
    if (is_over_tcp_) {
      add({"--remote"});
    } else {
      add({"--ready-fd", "1", "--quiet"});
    }
    if (!options_.host.containment.empty()) add({"--containment", options_.host.containment});
    if (!options_.host.run_dir.empty()) add({"--run-dir", options_.host.run_dir});
    for (const auto& [key, value] : core_.options().settings) add({"--set", key + "=" + value});
    for (const auto& [key, value] : options_.host.settings) add({"--set", key + "=" + value});
    spec.environment = options_.environment;
    spec.settings = options_.settings;
    spec.output = OutputMode::stream;
    if (is_over_tcp_ && count != 0) spec.input_ranks = {RankBlock{0, count}};
    spec.grace = core_.config().duration(keys::terminate_grace) + kBeyondGrace;
    return spec;
  }

  Handlers handlers(const std::shared_ptr<InnerTalk>& talk) const {
    return {.on_failure =
                [talk](const RankReport& rank) {
                  talk->note_problem(rank.rank,
                                     rank.reason + (rank.stderr_tail.empty()
                                                        ? std::string()
                                                        : "; its last words: " + rank.stderr_tail));
                },
            .on_output =
                [talk](std::uint64_t rank, Stream stream, std::string_view bytes) {
                  if (stream == Stream::out) talk->hear(rank, bytes);
                },
            .on_state =
                [talk](const RankReport& rank) {
                  if (rank.state == ProcState::stopped && rank.exit_code == 0)
                    talk->note_problem(rank.rank, "it ended without a word");
                }};
  }

  /// Tells the procs what they need, and waits until they are hosts. Errors: as HostMesh::inside().
  Result<std::vector<HostAddr>> make_hosts(ProcMesh& procs, InnerTalk& talk,
                                           Clock::time_point end) {
    if (is_over_tcp_) {
      if (auto said = send_orders(procs, end); !said) return fail(said.error());
      if (!talk.wait(InnerTalk::Wanted::address, end)) return fail(problems(procs, talk));
      if (auto said = introduce(procs, talk, end); !said) return fail(said.error());
    }
    if (!talk.wait(InnerTalk::Wanted::host, end)) return fail(problems(procs, talk));
    std::vector<HostAddr> hosts;
    for (std::uint64_t rank = 0; rank < procs.size(); ++rank) {
      const auto host = talk.host(rank);
      if (is_over_tcp_ && host->host() != talk.address(rank))
        return fail(ErrorCode::identity_mismatch,
                    "host " + std::to_string(rank) + ": it said that it is at " +
                        talk.address(rank) + ", and then calls itself " + host->to_string());
      hosts.push_back(*host);
    }
    for (const auto& host : hosts) {
      if (is_over_tcp_)
        core_.ways().set(host, {{},
                                CurveKeys{keys_->launcher.public_key,
                                          keys_->launcher.secret_key,
                                          {keys_->hosts.public_key},
                                          "the key of this launch"}});
    }
    return hosts;
  }

 private:
  /// Keys, which pass through the stdin of the procs.
  Result<void> send_orders(ProcMesh& procs, Clock::time_point end) {
    auto hosts = KeyPair::make();
    auto launcher = KeyPair::make();
    if (!hosts || !launcher) return fail(hosts ? launcher.error() : hosts.error());
    keys_ = LaunchKeys{std::move(*hosts), std::move(*launcher)};
    RemoteOrder order{
        {}, {}, keys_->hosts.public_key, keys_->hosts.secret_key, keys_->launcher.public_key};
    for (std::uint64_t rank = 0; rank < procs.size(); ++rank) {
      const auto proc = procs.ref().proc_at(rank);
      order.address = proc && proc->host().transport() == Transport::tcp
                          ? std::string(proc->host().host())
                          : std::string();
      if (auto said = procs.write_input(rank, order.to_json_line(), left_until(end)); !said)
        return fail(said.error().within("host " + std::to_string(rank)));
    }
    return {};
  }

  /// Tells each where all of them are.
  static Result<void> introduce(ProcMesh& procs, const InnerTalk& talk, Clock::time_point end) {
    std::set<std::string> addresses;
    for (std::uint64_t rank = 0; rank < procs.size(); ++rank) addresses.insert(talk.address(rank));
    const auto line = nlohmann::json{{"hosts", addresses}}.dump() + "\n";
    for (std::uint64_t rank = 0; rank < procs.size(); ++rank) {
      if (auto said = procs.write_input(rank, line, left_until(end)); !said)
        return fail(said.error().within("host " + std::to_string(rank)));
    }
    return {};
  }

  /// Which of them are no hosts, and why.
  Error problems(const ProcMesh& procs, const InnerTalk& talk) const {
    std::string text;
    bool is_timeout = true;
    const auto add = [&text](std::uint64_t rank, const std::string& problem) {
      text += (text.empty() ? "host " : "; host ") + std::to_string(rank) + ": " + problem;
    };
    for (std::uint64_t rank = 0; rank < procs.size(); ++rank) {
      const auto problem = talk.problem(rank);
      if (problem.empty()) continue;
      is_timeout = false;
      add(rank, problem);
    }
    for (std::uint64_t rank = 0; is_timeout && rank < procs.size(); ++rank) {
      if (!talk.host(rank))
        add(rank, "not ready within " + duration_to_text(options_.host.ready_limit));
    }
    return {is_timeout ? ErrorCode::timeout : ErrorCode::configuration_error, std::move(text)};
  }

  ContextCore& core_;
  const InsideOptions& options_;
  const bool is_over_tcp_;
  std::optional<LaunchKeys> keys_;
};

}  // namespace

Result<HostMesh> HostMesh::inside(Context& context, HostMesh& outer, const Extent& per_host,
                                  InsideOptions options) {
  const auto& core = context.core();
  if (auto fine = check_owner(core); !fine) return fail(fine.error());
  if (auto fine = check_owner(outer.impl_); !fine) return fail(fine.error());
  const auto& outer_core = outer.impl_->core();
  if (outer_core->handlers().is_here())
    return fail(ErrorCode::would_block, "hosts inside of procs cannot be started by a handler");
  const auto end = Clock::now() + std::min<std::chrono::milliseconds>(options.host.ready_limit,
                                                                      std::chrono::hours(24));
  const auto extent = concat(outer.ref().region().extent(), per_host);
  if (!extent) return fail(extent.error().within("hosts inside of " + outer.ref().to_string()));
  const bool is_over_tcp =
      std::any_of(outer.hosts().begin(), outer.hosts().end(),
                  [](const HostAddr& host) { return host.transport() != Transport::unix_socket; });
  InnerStart start(*core, options, is_over_tcp);
  const auto count = extent->num_ranks();
  auto spec = start.spec(count);
  if (!spec) return fail(spec.error());
  const auto talk = std::make_shared<InnerTalk>(static_cast<std::size_t>(count));
  const auto within = "starting " + std::to_string(count) + " hosts inside of procs";
  auto procs = outer.spawn("inner", per_host, std::move(*spec), start.handlers(talk));
  if (!procs) return fail(procs.error().within(within));
  // The procs may be of another context, which outlives this one.
  const auto tell = [weak = std::weak_ptr(core),
                     told = teller(*core, {.extent = {}, .on_event = options.on_event})](
                        const AllocationEvent& event) {
    if (const auto there = weak.lock()) told(event);
  };
  for (std::uint64_t rank = 0; rank < count; ++rank) tell({HostChange::created, rank, {}, {}});
  auto hosts = start.make_hosts(*procs, *talk, end);
  talk->close();
  if (!hosts) {
    const auto stopped =
        procs->stop({.reason = "the hosts inside did not start", .grace = kUndoGrace});
    for (std::uint64_t rank = 0; rank < count; ++rank)
      tell({HostChange::failed, rank, talk->host(rank), hosts.error().detail()});
    auto detail = hosts.error().detail();
    if (!stopped) detail += "; and not all of them could be stopped: " + stopped.error().detail();
    return fail(Error{hosts.error().code(), std::move(detail)}.within(within));
  }
  for (std::uint64_t rank = 0; rank < count; ++rank)
    tell({HostChange::running, rank, (*hosts)[static_cast<std::size_t>(rank)], {}});
  auto allocation = std::make_unique<ProcAllocation>(
      outer_core, *extent, std::move(*hosts), std::move(*procs), outer.impl_->ends_with_us(), tell);
  return HostMesh::allocate(context, "inner", std::move(allocation),
                            std::max(kLeastInnerTime, left_until(end)));
}

}  // namespace meshbus
