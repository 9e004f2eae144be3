#include "cli/run/job_hosts.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "cli/run/run_report.h"
#include "cli/run/say.h"
#include "client/src/base/given_up.h"
#include "common/base/quantity.h"
#include "common/config/config.h"

namespace meshbus::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How long hosts may take to say that they are there.
constexpr milliseconds kAskLimit{3000};
constexpr milliseconds kShortestAsk{1000};
/// From the end of a lease to the last of its procs, beyond the grace: SIGKILL has its time.
constexpr std::chrono::seconds kLeaseSlack{5};
/// How often we ask whether a silent host has ended.
constexpr milliseconds kLookForEnds{250};

/// The machines that hosts are to be started on; none when they run already, or run here.
Result<std::vector<RemoteHost>> remote_hosts(const RunArguments& arguments) {
  if (arguments.from == RunArguments::From::slurm) return slurm_hosts(arguments.remote_program);
  std::vector<std::string> machines;
  if (arguments.from != RunArguments::From::ssh) return std::vector<RemoteHost>();
  for (const auto& word : arguments.list.words) {
    const bool is_address = word.text.starts_with("tcp:") || word.text.starts_with("unix:");
    if (is_address)
      return fail(ErrorCode::configuration_error,
                  word.source + ": " + word.text +
                      " is the address of a running host, the others are machines to start hosts "
                      "on by ssh: "
                      "one or the other");
    machines.push_back(word.text.starts_with("ssh:") ? word.text.substr(4) : word.text);
  }
  auto hosts = ssh_hosts(machines, arguments.remote_program);
  if (!hosts) return fail(hosts.error().within(arguments.list.source));
  return hosts;
}

/// The drain of the whole host that lasts; null: there is none.
const DrainReport* held_drain(const HostReport& report) {
  for (const auto& drain : report.drains) {
    if (drain.hold && drain.mesh.empty() && drain.owner.empty()) return &drain;
  }
  return nullptr;
}

/// A rank that a drain, or another command, has ended.
bool was_stopped_elsewhere(const RankReport& rank) {
  return rank.step != StopStep::none &&
         rank.stop_reason.find(kStoppedElsewhere) == std::string::npos;
}

std::string words_of(const HostAddr& host, const DrainReport& drain) {
  return "host " + host.to_string() + " is drained by " + drain.requester +
         (drain.reason.empty() ? "" : ": " + drain.reason);
}

std::string count_of(std::uint64_t count) {
  return std::to_string(count) + (count == 1 ? " host" : " hosts");
}

}  // namespace

Result<void> JobHosts::find(const RunArguments& arguments) {
  ContextOptions options;
  for (const auto& setting : arguments.settings) {
    const auto equals = setting.find('=');
    if (equals == std::string::npos)
      return fail(ErrorCode::configuration_error, "--set takes KEY=VALUE, not '" + setting + "'");
    options.settings.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
  }
  if (const auto config = load_config(arguments.settings); !config) return fail(config.error());
  auto context = Context::create(std::move(options));
  if (!context) return fail(context.error());
  context_ = std::make_unique<Context>(std::move(*context));
  auto remote = remote_hosts(arguments);
  if (!remote) return fail(remote.error());
  remote_ = std::move(*remote);
  using From = RunArguments::From;
  const std::uint64_t there = arguments.from == From::here        ? arguments.hosts
                              : arguments.from == From::addresses ? arguments.list.words.size()
                                                                  : remote_.size();
  most_ = arguments.use.value_or(there);
  if (most_ > there)
    return fail(ErrorCode::configuration_error, "--use " + std::to_string(most_) + ": there " +
                                                    (there == 1 ? "is" : "are") + " only " +
                                                    count_of(there));
  if (arguments.wait_hosts && arguments.from != From::addresses)
    return fail(ErrorCode::configuration_error,
                "--wait-hosts waits for hosts that somebody else starts: name them by their "
                "addresses, --hosts tcp:h[1-4]:7420");
  wait_ = arguments.wait_hosts.value_or(milliseconds(0));
  if (!arguments.has_spares()) return {};
  const auto least = arguments.min_hosts.value_or(most_);
  if (least > most_)
    return fail(ErrorCode::configuration_error, "--min-hosts " + std::to_string(least) +
                                                    " is more than the " + count_of(most_) +
                                                    " that the job uses");
  if (arguments.roles.size() > 1)
    return fail(ErrorCode::configuration_error,
                "--use and --min-hosts start a job of one program again; this one has " +
                    std::to_string(arguments.roles.size()) + " programs");
  if (arguments.roles.front().keep_going)
    return fail(ErrorCode::configuration_error,
                "--keep-going lets the other ranks go on when a host is lost; --use and "
                "--min-hosts start all of them again: one or the other");
  const auto lease = parse_duration(context_->setting("lease").value_or("0s"));
  if (!lease || lease->count() == 0)
    return fail(ErrorCode::configuration_error,
                "--use and --min-hosts need a lease: without one the procs of a host that has "
                "fallen silent never end; set lease=30s or so");
  plan_.emplace(there, most_, least);
  return {};
}

Result<HostMesh> JobHosts::attach(const RunArguments& arguments) {
  const auto addresses = parse_hosts(arguments.list);
  if (!addresses) return fail(addresses.error());
  AttachOptions options;
  // Those that do not answer are told by the preflight, or when an attempt waits for them.
  options.require_all = !plan_ || (!arguments.preflight && !arguments.wait_hosts);
  const auto until = Clock::now() + wait_;
  auto hosts = HostMesh::attach(*context_, "hosts", *addresses, options);
  if (!hosts && hosts.error().code() == ErrorCode::host_unreachable && wait_.count() > 0) {
    say(hosts.error().detail() + ": waiting, " + duration_to_text(wait_) + " at most");
    options.wait = std::chrono::ceil<milliseconds>(until - Clock::now());
    hosts = HostMesh::attach(*context_, "hosts", *addresses, options);
    if (hosts) say("the hosts are there");
  }
  // After --hosts the user knows where the hosts are named.
  if (!hosts && arguments.said.list.empty())
    hosts = fail(hosts.error().within(arguments.list.source));
  return hosts;
}

Result<void> JobHosts::start(const RunArguments& arguments) {
  using From = RunArguments::From;
  Result<HostMesh> hosts = fail(ErrorCode::internal, "no host");
  HostOptions options;
  options.containment = arguments.containment;
  if (!remote_.empty()) {
    hosts = HostMesh::remote(*context_, std::move(remote_), std::move(options));
  } else if (arguments.from == From::here) {
    auto extent = Extent::make({{"host", arguments.hosts}});
    if (!extent) return fail(extent.error());
    hosts = HostMesh::process(*context_, *extent, std::move(options));
  } else {
    hosts = attach(arguments);
  }
  if (!hosts) return fail(hosts.error());
  all_ = std::make_unique<HostMesh>(std::move(*hosts));
  return {};
}

Result<void> JobHosts::leave_out(const std::vector<HostAddr>& hosts) {
  if (hosts.empty()) return {};
  if (!plan_)
    return fail(ErrorCode::host_unreachable,
                "preflight: " + count_of(hosts.size()) + " failed; nothing was started");
  for (std::uint64_t host = 0; host < all_->hosts().size(); ++host) {
    if (std::find(hosts.begin(), hosts.end(), all_->hosts()[host]) == hosts.end()) continue;
    say("host " + all_->hosts()[host].to_string() + " is left out");
    plan_->refuse(host);
  }
  if (plan_->is_enough()) return {};
  return fail(ErrorCode::host_unreachable,
              "preflight: too few hosts are left: " + std::to_string(plan_->left()) + " of " +
                  std::to_string(all_->hosts().size()));
}

void JobHosts::look_for_drain(std::uint64_t host, const HostReport& report) {
  const auto* drain = held_drain(report);
  if (drain == nullptr) return plan_->take_back(host);
  if (!plan_->is_aside(host)) say(words_of(report.host, *drain) + ": it is left out");
  plan_->set_aside(host);
}

Result<JobHosts::Reports> JobHosts::ask_left() const {
  std::vector<std::uint64_t> numbers;
  std::vector<HostAddr> left;
  for (std::uint64_t host = 0; host < all_->hosts().size(); ++host) {
    if (plan_->is_lost(host)) continue;
    numbers.push_back(host);
    left.push_back(all_->hosts()[host]);
  }
  if (left.size() == all_->hosts().size()) return ask_all(kAskLimit);
  auto hosts = HostMesh::attach(*context_, "left", std::move(left),
                                {.deadline = kAskLimit, .require_all = false});
  if (!hosts) return ask_all(kAskLimit);
  const auto answers = hosts->states(kAskLimit);
  if (!answers) return fail(answers.error());
  Reports reports;
  for (std::size_t i = 0; i < numbers.size(); ++i) reports.emplace(numbers[i], (*answers)[i]);
  return reports;
}

Result<JobHosts::Reports> JobHosts::ask_all(milliseconds limit) const {
  const auto answers = all_->states(limit);
  if (!answers) return fail(answers.error());
  Reports reports;
  for (std::uint64_t host = 0; host < answers->size(); ++host)
    reports.emplace(host, (*answers)[host]);
  return reports;
}

Result<void> JobHosts::look_at_hosts() {
  const auto rest = std::chrono::ceil<milliseconds>(plan_->clear_at() - Clock::now());
  const bool may_come_back = wait_.count() > 0 && !plan_->is_full();
  // Lost hosts are asked while their answer matters: it takes long not to get one.
  auto reports = may_come_back      ? ask_all(kAskLimit)
                 : rest.count() > 0 ? ask_all(std::clamp(rest, kShortestAsk, kAskLimit))
                                    : ask_left();
  if (!reports) return fail(reports.error());
  for (const auto& [host, report] : *reports) {
    if (report.code == ErrorCode::none) {
      if (wait_.count() > 0 && plan_->is_lost(host) && plan_->come_back(host))
        say("host " + report.host.to_string() + " is there");
      look_for_drain(host, report);
      continue;
    }
    if (!plan_->is_lost(host)) {
      // It runs no rank: those of the former attempt were heard to have ended.
      say("host " + report.host.to_string() + (wait_.count() > 0 ? ": " : " is left out: ") +
          report.problem);
      plan_->lose(host, Clock::now());
    }
    if (report.has_ended) plan_->confirm_end(host);
  }
  return {};
}

Result<void> JobHosts::wait_until_clear() {
  bool is_said = false;
  while (true) {
    if (auto looked = look_at_hosts(); !looked) return looked;
    const auto now = Clock::now();
    if (plan_->clear_at() <= now) return {};
    if (!std::exchange(is_said, true)) {
      const auto wait = std::chrono::ceil<std::chrono::seconds>(plan_->clear_at() - now);
      say("a lost host is only silent: waiting until the lease of its procs is over, " +
          std::to_string(wait.count()) + " s at most");
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(kLookForEnds, plan_->clear_at() - now));
  }
}

Result<void> JobHosts::wait_for_hosts() {
  const auto until = Clock::now() + wait_;
  bool is_said = false;
  while (Clock::now() < until && !plan_->is_full() && plan_->may_grow()) {
    if (!std::exchange(is_said, true))
      say("waiting for hosts, " + duration_to_text(wait_) + " at most: there " +
          (plan_->left() == 1 ? "is 1" : "are " + std::to_string(plan_->left())) + ", and " +
          std::to_string(most_) + " are wanted");
    std::this_thread::sleep_for(std::min<Clock::duration>(kLookForEnds, until - Clock::now()));
    if (auto looked = look_at_hosts(); !looked) return looked;
  }
  return {};
}

Result<void> JobHosts::choose() {
  if (!plan_) return {};
  if (auto clear = wait_until_clear(); !clear) return clear;
  if (auto waited = wait_for_hosts(); !waited) return waited;
  const auto numbers = plan_->choose();
  if (!numbers)
    return fail(ErrorCode::host_unreachable,
                std::string("too few hosts are left for ") +
                    (attempt() > 0 ? "another attempt: " : "the job: ") +
                    std::to_string(plan_->left()) + " of " + std::to_string(all_->hosts().size()));
  std::vector<HostAddr> addresses;
  for (const auto number : *numbers) addresses.push_back(all_->hosts()[number]);
  auto chosen = HostMesh::attach(*context_, "hosts", std::move(addresses));
  if (!chosen) return fail(chosen.error());
  chosen_ = std::make_unique<HostMesh>(std::move(*chosen));
  return {};
}

Result<std::unique_ptr<HostMesh>> JobHosts::some(const std::vector<std::uint64_t>& numbers) {
  if (numbers.empty()) return std::unique_ptr<HostMesh>();
  std::vector<HostAddr> addresses;
  for (const auto number : numbers) addresses.push_back(chosen().hosts().at(number));
  auto hosts = HostMesh::attach(*context_, "hosts", std::move(addresses));
  if (!hosts) return fail(hosts.error());
  return std::make_unique<HostMesh>(std::move(*hosts));
}

void JobHosts::find_drained(const MeshOutcome& outcome, FormerAttempt& former) {
  if (!plan_->has_aside() &&
      std::none_of(outcome.ranks.begin(), outcome.ranks.end(), was_stopped_elsewhere))
    return;
  const auto reports = ask_left();
  if (!reports) return;
  for (const auto& [number, report] : *reports) {
    if (report.code != ErrorCode::none) continue;
    const auto* drain = held_drain(report);
    if (drain == nullptr) {
      plan_->take_back(number);
      continue;
    }
    plan_->set_aside(number);
    const auto is_of_drain = [&](const RankReport& rank) {
      return rank.host == report.host && was_stopped_elsewhere(rank) &&
             rank.stopped_by == drain->requester;
    };
    if (std::none_of(outcome.ranks.begin(), outcome.ranks.end(), is_of_drain)) continue;
    former.drained_hosts.push_back(report.host.to_string());
    if (former.reason.empty()) former.reason = words_of(report.host, *drain);
  }
}

std::vector<HostAddr> JobHosts::spares() const {
  std::vector<HostAddr> spares;
  if (!plan_) return spares;
  const auto& chosen = plan_->chosen();
  for (std::uint64_t host = 0; host < all_->hosts().size(); ++host) {
    const bool is_used = std::find(chosen.begin(), chosen.end(), host) != chosen.end();
    if (!is_used && !plan_->is_lost(host) && !plan_->is_aside(host))
      spares.push_back(all_->hosts()[host]);
  }
  return spares;
}

std::optional<std::string> JobHosts::begin_next(const ProcMeshRef& mesh, const MeshOutcome& outcome,
                                                milliseconds grace) {
  if (!plan_) return std::nullopt;
  FormerAttempt former;
  former.mesh = mesh.mesh().to_string();
  const auto lease = parse_duration(context_->setting("lease").value_or("0s"));
  std::set<HostAddr> lost;
  const auto lose = [&](const RankReport& rank) {
    const bool is_gone = rank.cause == Cause::host_lost || rank.cause == Cause::keeper_lost ||
                         rank.cause == Cause::host_ended;
    if (!is_gone || !lost.insert(rank.host).second) return;
    former.lost_hosts.push_back(rank.host.to_string());
    if (former.reason.empty())
      former.reason = rank.cause == Cause::host_ended
                          ? "host " + rank.host.to_string() + " has ended in order"
                          : rank.reason;
    // The mesh may have grown onto a spare, or onto a host that is none of this run's.
    const auto& all = all_->hosts();
    const auto host = std::find(all.begin(), all.end(), rank.host);
    if (host == all.end()) return;
    // A host that told of the ends itself runs nothing of this job any more.
    const auto rest =
        is_given_up(rank) ? lease.value_or(milliseconds(0)) + grace + kLeaseSlack : milliseconds(0);
    plan_->lose(static_cast<std::uint64_t>(host - all.begin()), Clock::now() + rest);
  };
  for (const auto& rank : outcome.ranks) lose(rank);
  const bool has_lost = !lost.empty();
  // Those that ranks have moved away from.
  for (const auto& rank : outcome.former_lives) lose(rank);
  find_drained(outcome, former);
  if (!has_lost && former.drained_hosts.empty()) return std::nullopt;
  const bool waits = wait_.count() > 0 && !plan_->is_full() && plan_->may_grow();
  if (!plan_->is_enough() && !waits) return std::nullopt;
  former_.push_back(std::move(former));
  if (waits)
    return former_.back().reason + ": attempt " + std::to_string(attempt() + 1) +
           " of the job when there are enough hosts";
  const auto next = std::min(plan_->left(), most_);
  return former_.back().reason + ": attempt " + std::to_string(attempt() + 1) + " of the job on " +
         count_of(next) + ", " + count_of(plan_->left() - next) + " to spare";
}

}  // namespace meshbus::cli
