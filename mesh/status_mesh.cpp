#include "meshbus/status_mesh.h"

#include <map>
#include <vector>

#include "mesh/run_text.h"

namespace meshbus {
namespace {

Result<void> parse_group(text::Scanner& scanner, std::vector<run_text::Placed<Status>>& placed) {
  scanner.skip_spaces();
  const Result<Status> status = Status::read(scanner);
  if (!status) return fail(status.error());
  scanner.skip_spaces();
  if (Result<void> equals = scanner.expect('='); !equals) return equals;
  do {
    const auto interval = run_text::parse_interval(scanner);
    if (!interval) return fail(interval.error());
    placed.push_back({{interval->run.begin, interval->run.end, *status}, interval->position});
  } while (scanner.accept(','));
  return {};
}

}  // namespace

std::string to_string(const StatusOverlay& statuses) {
  std::map<Status, std::string> groups;
  for (const auto& [begin, end, status] : statuses.runs()) {
    std::string& ranks = groups[status];
    ranks += (ranks.empty() ? "" : ",") + run_text::interval(begin, end);
  }
  std::string out;
  for (const auto& [status, ranks] : groups)
    out += (out.empty() ? "" : ";") + status.to_string() + "=" + ranks;
  return out;
}

std::string to_string(const StatusMesh& mesh) {
  return to_string(mesh.overlay());
}

Result<StatusOverlay> parse_statuses(std::string_view text) {
  text::Scanner scanner("statuses", text);
  std::vector<run_text::Placed<Status>> placed;
  scanner.skip_spaces();
  if (scanner.at_end()) return StatusOverlay();
  do {
    if (Result<void> group = parse_group(scanner, placed); !group)
      return fail(std::move(group).error());
  } while (scanner.accept(';'));
  if (Result<void> end = scanner.expect_end("',', ';' or the end"); !end)
    return fail(std::move(end).error());
  return run_text::collect(scanner, std::move(placed));
}

StatusOverlay missing(const StatusMesh& mesh, Status::Kind minimum) {
  std::vector<StatusOverlay::Run> runs;
  mesh.for_each_run([&](std::uint64_t begin, std::uint64_t end, const Status& status) {
    if (!status.has_reached(minimum)) runs.push_back({begin, end, status});
  });
  return StatusOverlay::of(std::move(runs));
}

std::uint64_t count_missing(const StatusMesh& mesh, Status::Kind minimum) {
  return mesh.count_if([&](const Status& status) { return !status.has_reached(minimum); });
}

}  // namespace meshbus
