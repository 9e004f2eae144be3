#include "agent/mpi/rank_hello.h"

#include "common/base/quantity.h"

namespace meshbus::mpi {

std::string door_name(std::string_view job, std::uint64_t host) {
  return "@meshbus-mpi/" + std::string(job) + "/" + std::to_string(host);
}

std::string RankHello::to_line() const {
  return std::to_string(rank) + " " + std::to_string(attempt) + "\n";
}

Result<RankHello> RankHello::parse(std::string_view line) {
  const auto blank = line.find(' ');
  const auto rank = parse_whole(line.substr(0, blank));
  const auto attempt =
      blank == std::string_view::npos ? std::nullopt : parse_whole(line.substr(blank + 1));
  if (!rank || !attempt) return fail(ErrorCode::parse_error, "this is no rank of an MPI job");
  return RankHello{.rank = *rank, .attempt = *attempt};
}

}  // namespace meshbus::mpi
