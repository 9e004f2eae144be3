// What the tests of a controller's classes have in common: a mesh of four ranks on two hosts, and
// what these hosts say of it.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/controller/mesh_controller.h"
#include "meshbus/name.h"
#include "wire/supervision_generated.h"

/// In a namespace of their own: what others call alike is compiled with them.
namespace meshbus::test::controlled {

using namespace std::chrono_literals;

using Order = MeshController::Order::Kind;

inline const HostAddr kA = *HostAddr::parse("unix:/a");
inline const HostAddr kB = *HostAddr::parse("unix:/b");
inline const std::string kControlled = Name::make("m", 1)->to_string();
inline const MeshController::Time t0{1h};

inline wire::RankState rank_of(std::uint64_t rank, wire::ProcState state = wire::ProcState::ready,
                               std::uint64_t generation = 1, std::uint64_t incarnation = 1) {
  const bool is_over = is_terminal(state);
  return {rank,
          generation,
          incarnation,
          1,
          is_over ? 5 : 0,
          42,
          0,
          state,
          static_cast<std::uint8_t>(state == wire::ProcState::killed ? 9 : 0),
          false,
          wire::StopStep::none,
          0};
}

inline std::shared_ptr<const wire::ExitReportT> exit_report_of(
    std::uint64_t rank, const std::string& tail = "last \xff words\n") {
  auto exit_report = std::make_shared<wire::ExitReportT>();
  exit_report->rank = rank;
  exit_report->reason = "killed by SIGKILL";
  exit_report->cause = wire::Cause::killed_from_outside;
  exit_report->stderr_tail.assign(tail.begin(), tail.end());
  return exit_report;
}

/// Two ranks on each of two hosts.
inline MeshUpdate news_of(std::vector<wire::RankState> ranks,
                          std::vector<std::shared_ptr<const wire::ExitReportT>> exit_reports = {}) {
  return {.mesh = kControlled,
          .region = Region(*Extent::parse("host=2,gpu=2")),
          .hosts = {kA, kB},
          .ranks_update = {std::move(ranks), std::move(exit_reports)}};
}

inline MeshController make(std::set<HostAddr> watched = {kA, kB}) {
  return {kControlled, std::make_shared<const std::set<HostAddr>>(std::move(watched))};
}

/// One that knows all four ranks and hears of changes.
inline MeshController running() {
  auto mesh = make();
  for (const auto& host : {kA, kB}) {
    const std::uint64_t first = host == kA ? 0 : 2;
    mesh.listed(host, news_of({rank_of(first), rank_of(first + 1)}), t0);
    mesh.answered({Order::stream, host}, news_of({rank_of(first), rank_of(first + 1)}), t0);
  }
  return mesh;
}

inline wire::RankTrouble trouble_of(std::uint64_t rank, wire::Trouble trouble,
                                    std::uint64_t incarnation = 1) {
  return {rank, incarnation, 1, 12'345, trouble, 'T'};
}

inline RankUpdate troubles(std::vector<wire::RankTrouble> list) {
  return {.ranks = {}, .exit_reports = {}, .owner = {}, .troubles = std::move(list)};
}

}  // namespace meshbus::test::controlled
