#include "agent/host/services/topology_reader.h"

namespace meshbus::host {
namespace {

constexpr char kTopologyProgram[] = "meshbus-topology";
/// It takes some milliseconds; on large machines with many devices some hundred.
constexpr std::chrono::seconds kTopologyLimit{10};

}  // namespace

void TopologyReader::read(Done done) {
  waiting_.push_back(std::move(done));
  if (run_ != nullptr) return;
  auto run = HelperRun::start(reactor_, kTopologyProgram, {}, kTopologyLimit,
                              [this](const Result<std::string>& output) { on_done(output); });
  if (run) {
    run_ = std::move(*run);
    return;
  }
  const auto error = run.error().code() == ErrorCode::refused
                         ? run.error().within("binding ranks needs hwloc")
                         : run.error();
  for (const auto& each : std::exchange(waiting_, {})) each(fail(error));
}

void TopologyReader::on_done(const Result<std::string>& output) {
  auto topology =
      output ? topology::parse_json(*output) : Result<topology::Topology>(fail(output.error()));
  if (!topology) topology = fail(topology.error().within(kTopologyProgram));
  const auto waiting = std::exchange(waiting_, {});
  run_.reset();
  for (const auto& each : waiting) each(topology);
}

}  // namespace meshbus::host
