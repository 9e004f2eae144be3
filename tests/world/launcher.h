#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/bus/bus.h"
#include "tests/world/loop.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::test {

/// A launcher as the host agent sees it: what it is told, it keeps.
class TestLauncher {
 public:
  TestLauncher(Loop& loop, const std::string& endpoint, std::string name);

  /// What is known of one rank.
  struct Rank {
    std::vector<wire::RankState> states;  ///< In the order of arrival.
    std::optional<wire::ExitReportT> exit_report;
    std::string out, err;
    bool output_ended = false;

    wire::ProcState state() const {
      return states.empty() ? wire::ProcState::none : states.back().state();
    }
    bool has_ended() const { return state() >= wire::ProcState::stopped; }
  };
  using Mesh = std::map<std::uint64_t, Rank>;

  Bus& bus() { return *bus_; }
  ProcId id() const { return *bus_->self(); }
  Mesh& mesh(const std::string& name) { return meshes[name]; }

  std::map<std::string, Mesh> meshes;
  std::vector<std::string>
      problems;               ///< Generations out of order, changes and exit reports told twice.
  bool takes_output = true;   ///< Says OutputTaken.
  std::uint64_t untaken = 0;  ///< Bytes of output for which it has not been said.
  std::size_t state_messages = 0;
  std::function<void(const Request&, const wire::Log&)> on_log = [](const Request&,
                                                                    const wire::Log&) {};

 private:
  void on_state_changed(const wire::StateChanged& message);
  void on_output(const Request& request, const wire::Output& message);

  std::unique_ptr<Bus> bus_;
};

}  // namespace meshbus::test
