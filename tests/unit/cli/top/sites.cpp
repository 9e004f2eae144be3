#include "tests/unit/cli/top/sites.h"

namespace meshbus::cli {
namespace {

using namespace std::chrono_literals;

const std::chrono::system_clock::time_point kNow{1'700'000'000s};
constexpr const char* kTrain = "train-13Se1Maqzryj";
constexpr const char* kEval = "eval-13Se1Maqzryk";

HostAddr address(int number) {
  return *HostAddr::parse("tcp:h" + std::to_string(number) + ":7420");
}

SiteHost make_host(int number) {
  SiteHost host;
  host.host = address(number);
  host.state = SiteHostState::up;
  host.since = kNow - 3h;
  host.report.host = host.host;
  host.report.node = "node" + std::to_string(number);
  host.report.version = "0.1.0";
  host.report.containment = "cgroup v2";
  host.report.pid = 1000 + number;
  host.started = kNow - 26h;
  host.cpus = 16;
  host.load = 3.5;
  host.memory = 64ULL << 30;
  host.memory_available = 40ULL << 30;
  host.broker = SiteBroker{.received = 5000, .held = 3, .peers = 9};
  host.messages_per_second = 1234;
  return host;
}

std::shared_ptr<SiteRank> make_rank(std::uint64_t number, int host, ProcState state,
                                    const std::string& line) {
  auto rank = std::make_shared<SiteRank>();
  auto& report = rank->report;
  report.rank = number;
  report.host = address(host);
  report.point = "gpu=" + std::to_string(number) + "/4";
  report.state = state;
  report.pid = 4000 + static_cast<std::int64_t>(number);
  report.started = kNow - 125s;
  report.reason = std::string(to_string(state));
  if (!report.is_terminal())
    report.usage = ProcUsage{.sampled = kNow,
                             .user_time = 80s,
                             .system_time = 5s,
                             .rss_bytes = (number + 1) * (100ULL << 20),
                             .peak_rss_bytes = 1ULL << 30,
                             .threads = 12,
                             .descriptors = 30,
                             .load = 0.25 * static_cast<double>(number + 1),
                             .progress = {}};
  rank->last_line = line;
  return rank;
}

}  // namespace

SiteView make_view() {
  SiteView view;
  view.sequence = 7;
  view.time = kNow;
  for (int number = 1; number <= 3; ++number) view.hosts.push_back(make_host(number));
  auto& lost = view.hosts[2];
  lost.state = SiteHostState::lost;
  lost.since = kNow - 75s;
  lost.code = ErrorCode::host_unreachable;
  lost.problem = "connect: Connection refused";
  lost.messages_per_second = 0;

  SiteMesh train;
  train.name = kTrain;
  train.region = Region(*Extent::parse("gpu=4"));
  train.owner = "tcp:h1:7420,client-11111111111b";
  train.command = "./train.sh --size 7B";
  auto slow = make_rank(1, 1, ProcState::ready, "step 41 loss 0.71");
  slow->queued_messages = 1500;
  slow->queued_bytes = 3 << 20;
  slow->queue_waits = 4s;
  auto killed = make_rank(2, 2, ProcState::killed, "CUDA error: out of memory");
  killed->report.signal = 9;
  killed->report.reason = "killed by SIGKILL";
  killed->report.ended = kNow - 5s;
  killed->report.restarts = 2;
  train.ranks = {make_rank(0, 1, ProcState::ready, "step 42 loss 0.70"), slow, killed,
                 make_rank(3, 3, ProcState::ready, "step 42 \x1b[31mred\x1b[0m \xff")};
  SiteMesh eval;
  eval.name = kEval;
  eval.region = Region(*Extent::parse("gpu=2"));
  eval.command = "./eval";
  auto done = make_rank(0, 2, ProcState::stopped, "score 0.93");
  eval.ranks = {done, make_rank(1, 2, ProcState::starting, "")};
  view.meshes = {eval, train};
  return view;
}

TopState make_state(const std::string& selected) {
  TopState state;
  state.view = make_view();
  for (const auto& row : make_rows(state.view, state.tree)) {
    const auto name = row.kind == TreeRow::Kind::host ? row.host->host.to_string().substr(4, 2)
                      : row.kind == TreeRow::Kind::mesh
                          ? row.mesh->name.substr(0, row.mesh->name.find('-'))
                          : row.mesh->name.substr(0, row.mesh->name.find('-')) + " " +
                                std::to_string(row.rank->report.rank);
    if (name == selected && state.selected.empty()) state.selected = row.key;
  }
  return state;
}

}  // namespace meshbus::cli
