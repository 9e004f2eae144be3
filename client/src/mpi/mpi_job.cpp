#include "client/src/mpi/mpi_job.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "client/src/launch/launched_host.h"
#include "common/security/token.h"

namespace meshbus {
namespace {

using std::chrono::milliseconds;

constexpr const char* kHelper = "meshbus-mpi";
constexpr const char* kPmixHelper = "meshbus-mpi-pmix";
constexpr const char* kOverReason = "the MPI job is over";
constexpr const char* kInFront = "meshbus-mpi-exec";
/// For the helpers to end by themselves. They have nothing to lose.
constexpr milliseconds kHelperGrace{2000};
constexpr milliseconds kCleanLimit{2000};

/// The hosts that this launcher starts have it beside the programs that are beside `meshbus`.
bool is_installed(const std::string& program) {
  const auto meshbus = find_meshbus_program("");
  return meshbus &&
         ::access((meshbus->substr(0, meshbus->rfind('/') + 1) + program).c_str(), X_OK) == 0;
}

std::string hex(std::uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(number >> shift) & 15];
  return text;
}

const char* word_of(MpiWire wire) {
  return wire == MpiWire::pmi1 ? "pmi1" : "pmix";
}

/// Whether several hosts are on this machine, and no other one: their ranks meet on its loopback
/// interface.
bool are_on_one_machine(const std::vector<HostAddr>& hosts) {
  return hosts.size() > 1 && std::all_of(hosts.begin(), hosts.end(), [](const HostAddr& host) {
           return host.transport() != Transport::tcp || host.is_loopback();
         });
}

}  // namespace

std::string own_variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

Result<MpiWire> MpiJob::choose(MpiWire wanted, const std::vector<std::string>& command) {
  const auto found = find_mpi(command, own_variable);
  if (wanted == MpiWire::any) {
    if (found) wanted = found->wire;
  } else if (found && found->wire != MpiWire::any && found->wire != wanted) {
    return fail(ErrorCode::configuration_error, std::string("--mpi=") + word_of(wanted) + ": " +
                                                    found->file + " " + found->because +
                                                    ", which needs --mpi=" + word_of(found->wire));
  }
  if (wanted == MpiWire::pmix && !is_installed(kPmixHelper))
    return fail(ErrorCode::configuration_error,
                "--mpi for Open MPI needs the program " + std::string(kPmixHelper) +
                    ", which is not installed beside meshbus: install the package meshbus-mpi, or "
                    "build where libpmix is");
  return wanted;
}

Result<std::unique_ptr<MpiJob>> MpiJob::start(HostMesh& hosts, const std::string& name,
                                              std::uint64_t ranks, MpiWire wire, Events events) {
  std::unique_ptr<MpiJob> job(new MpiJob());
  job->job_ = hex(random_u64());
  job->wire_ = wire;
  constexpr std::string_view kSuffix = "_mpi";
  job->name_ = name.substr(0, Name::max_base - kSuffix.size()) + std::string(kSuffix);
  const bool is_pmix = wire == MpiWire::pmix || (wire == MpiWire::any && is_installed(kPmixHelper));
  ProcSpec spec;
  spec.kind = ProcKind::mesh;
  spec.command = {is_pmix ? kPmixHelper : kHelper};
  spec.environment = {{"MESHBUS_MPI_JOB", job->job_},
                      {"MESHBUS_MPI_SECRET", hex(random_u64()) + hex(random_u64())},
                      {"MESHBUS_MPI_RANKS", std::to_string(ranks)}};
  if (are_on_one_machine(hosts.hosts()))
    spec.environment.emplace_back("MESHBUS_MPI_ONE_MACHINE", "1");
  spec.output = OutputMode::stream;
  spec.grace = kHelperGrace;
  Handlers handlers;
  handlers.on_failure = std::move(events.on_lost_helper);
  handlers.on_output = [on_notice = std::move(events.on_notice)](std::uint64_t, Stream stream,
                                                                 std::string_view lines) {
    while (stream == Stream::out && !lines.empty()) {
      const auto end = lines.find('\n');
      if (auto notice = mpi::Notice::parse(lines.substr(0, end))) on_notice(*notice);
      lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    }
  };
  const auto one_each = Extent::make({{"helper", 1}});
  if (!one_each) return fail(one_each.error());
  auto helpers = hosts.spawn(job->name_, *one_each, std::move(spec), std::move(handlers));
  if (!helpers) return fail(helpers.error().within("--mpi"));
  job->helpers_ = std::make_unique<ProcMesh>(std::move(*helpers));
  return job;
}

void MpiJob::wrap(ProcSpec& spec) const {
  spec.command.insert(spec.command.begin(), kInFront);
  spec.environment.emplace_back("MESHBUS_MPI_JOB", job_);
  // A rank of Open MPI that waits gives its CPU to another one (sched_yield). Where sessions are
  // groups of the scheduler (sched_autogroup_enabled) that works only within one. Ranks of MPICH do
  // not yield; eight of them on two CPUs took up to 1.4 times as long in MPI_Init in one session.
  if (wire_ == MpiWire::pmix) spec.settings.same_session = true;
}

void MpiJob::request_stop() {
  if (helpers_ != nullptr) helpers_->request_stop({.reason = kOverReason, .grace = kHelperGrace});
}

void MpiJob::stop(HostMesh& hosts) {
  if (helpers_ == nullptr) return;
  const auto outcome = helpers_->stop({.reason = kOverReason, .grace = kHelperGrace});
  const bool is_left = !outcome || outcome->first_failure.has_value();
  helpers_.reset();
  if (!is_left) return;
  // A helper that was killed has left its files.
  ProcSpec spec;
  spec.command = {kHelper, "--clean"};
  Handlers handlers;
  handlers.on_failure = [](const RankReport&) {};
  const auto one_each = Extent::make({{"helper", 1}});
  if (!one_each) return;
  if (auto cleaners = hosts.spawn(name_, *one_each, std::move(spec), std::move(handlers)))
      [[maybe_unused]]
    const auto ended = cleaners->wait(kCleanLimit);
}

}  // namespace meshbus
