#include "cli/run/mpi_choice.h"

#include <string>
#include <utility>

#include "client/src/mpi/mpi_job.h"

namespace meshbus::cli {
namespace {

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

MpiWire wire_of_word(const std::string& word) {
  if (word == "pmi1") return MpiWire::pmi1;
  if (word == "pmix") return MpiWire::pmix;
  return MpiWire::any;
}

}  // namespace

Result<std::optional<MpiWire>> choose_mpi(const RoleArguments& arguments, std::uint64_t ranks) {
  if (arguments.mpi == "none" || (arguments.mpi.empty() && ranks < 2)) return std::nullopt;
  if (arguments.mpi.empty()) {
    const auto found = find_mpi(arguments.command, own_variable);
    if (!found) return std::nullopt;
    return mistake(found->file + " " + found->because + ", and without --mpi each of its " +
                   std::to_string(ranks) +
                   " ranks would be rank 0 of 1. Say --mpi to make them one MPI job, or --mpi=none "
                   "to start them as they are");
  }
  if (auto whole = check_whole(arguments); !whole) return fail(whole.error());
  const auto wire = MpiJob::choose(wire_of_word(arguments.mpi), arguments.command);
  if (!wire) return fail(wire.error());
  return *wire;
}

}  // namespace meshbus::cli
