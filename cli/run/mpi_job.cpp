#include "cli/run/mpi_job.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "agent/mpi/notice.h"
#include "common/security/token.h"

namespace meshbus::cli {
namespace {

using std::chrono::milliseconds;

constexpr const char* kHelper = "meshbus-mpi";
constexpr const char* kPmixHelper = "meshbus-mpi-pmix";
constexpr const char* kInFront = "meshbus-mpi-exec";
/// For the helpers to end by themselves. They have nothing to lose.
constexpr milliseconds kHelperGrace{2000};
constexpr milliseconds kCleanLimit{2000};

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// Where this program is; hosts that it starts look there too.
bool is_beside_us(const std::string& program) {
  std::string path(4096, '\0');
  const auto size = ::readlink("/proc/self/exe", path.data(), path.size());
  if (size <= 0) return false;
  path.resize(static_cast<std::size_t>(size));
  return ::access((path.substr(0, path.rfind('/') + 1) + program).c_str(), X_OK) == 0;
}

std::string hex(std::uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(number >> shift) & 15];
  return text;
}

tl::unexpected<Error> mistake(std::string words) {
  return fail(ErrorCode::configuration_error, std::move(words));
}

/// What does not go together with ranks that only work as a whole.
Result<void> check_whole(const RoleArguments& arguments) {
  if (arguments.keep_going)
    return mistake(
        "--mpi and --keep-going do not go together: when a rank of an MPI job is gone, the others "
        "wait for it for ever");
  if (arguments.restart.on != RestartPolicy::On::never && arguments.restart.gang != Gang::all)
    return mistake(
        "--mpi and --restart need --gang all: a rank of an MPI job cannot join again alone");
  return {};
}

std::optional<MpiWire> wire_of_word(const std::string& word) {
  if (word == "pmi1") return MpiWire::pmi1;
  if (word == "pmix") return MpiWire::pmix;
  return std::nullopt;
}

}  // namespace

Result<std::optional<MpiWire>> MpiJob::choose(const RoleArguments& arguments, std::uint64_t ranks) {
  if (arguments.mpi == "none" || (arguments.mpi.empty() && ranks < 2)) return std::nullopt;
  const auto found = find_mpi(arguments.command, variable);
  if (arguments.mpi.empty()) {
    if (!found) return std::nullopt;
    return mistake(found->file + " " + found->because + ", and without --mpi each of its " +
                   std::to_string(ranks) +
                   " ranks would be rank 0 of 1. Say --mpi to make them one MPI job, or --mpi=none "
                   "to start them as they are");
  }
  if (auto whole = check_whole(arguments); !whole) return fail(whole.error());
  auto wire = wire_of_word(arguments.mpi);
  if (!wire) {
    wire = found ? found->wire : MpiWire::any;
  } else if (found && found->wire != MpiWire::any && found->wire != *wire) {
    return mistake("--mpi=" + arguments.mpi + ": " + found->file + " " + found->because +
                   ", which needs --mpi=" + (found->wire == MpiWire::pmi1 ? "pmi1" : "pmix"));
  }
  if (*wire == MpiWire::pmix && !is_beside_us(kPmixHelper))
    return mistake(
        "--mpi for Open MPI needs the program " + std::string(kPmixHelper) +
        ", which is not installed beside this one: install the package meshbus-mpi, or build where "
        "libpmix is");
  return wire;
}

Result<std::unique_ptr<MpiJob>> MpiJob::start(HostMesh& hosts, const std::string& name,
                                              std::uint64_t ranks, MpiWire wire,
                                              RunEvents& events) {
  std::unique_ptr<MpiJob> job(new MpiJob(hosts));
  job->job_ = hex(random_u64());
  constexpr std::string_view kSuffix = "_mpi";
  job->name_ = name.substr(0, Name::max_base - kSuffix.size()) + std::string(kSuffix);
  const bool is_pmix = wire == MpiWire::pmix || (wire == MpiWire::any && is_beside_us(kPmixHelper));
  ProcSpec spec;
  spec.kind = ProcKind::mesh;
  spec.command = {is_pmix ? kPmixHelper : kHelper};
  spec.environment = {{"MESHBUS_MPI_JOB", job->job_},
                      {"MESHBUS_MPI_SECRET", hex(random_u64()) + hex(random_u64())},
                      {"MESHBUS_MPI_RANKS", std::to_string(ranks)}};
  spec.output = OutputMode::stream;
  spec.grace = kHelperGrace;
  Handlers handlers;
  handlers.on_failure = [&events](const RankReport& helper) { events.helper_lost(helper); };
  handlers.on_output = [&events](std::uint64_t, Stream stream, std::string_view lines) {
    while (stream == Stream::out && !lines.empty()) {
      const auto end = lines.find('\n');
      if (auto notice = mpi::Notice::parse(lines.substr(0, end))) events.noticed(*notice);
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
}

void MpiJob::stop() {
  if (helpers_ == nullptr) return;
  const auto outcome = helpers_->stop({.reason = "the MPI job is over",
                                       .grace = kHelperGrace,
                                       .deadline = {},
                                       .ranks = {},
                                       .because = {}});
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
  if (auto cleaners = hosts_.spawn(name_, *one_each, std::move(spec), std::move(handlers)))
      [[maybe_unused]]
    const auto ended = cleaners->wait(kCleanLimit);
}

}  // namespace meshbus::cli
