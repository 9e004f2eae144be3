#include "cli/bench/cast_mesh.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/casts.h"
#include "bench/child.h"
#include "bench/measured.h"
#include "cli/bench/bench_rows.h"
#include "meshbus/actor.h"
#include "meshbus/address.h"
#include "meshbus/proc.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Member : Actor {
  explicit Member(std::string_view) {
    on("one", [](ActorContext&, const ActorMessage&) { return std::string("1"); });
  }
};

}  // namespace

CastMesh::CastMesh(const BenchArguments& arguments)
    : context_(bench::must(Context::create())),
      hosts_(hosts_of(context_, arguments)),
      is_own_(arguments.hosts.empty()) {
  mesh_.emplace(
      bench::must(hosts_.spawn_n("cast", arguments.peers,
                                 {.kind = ProcKind::mesh,
                                  .command = {bench::own_folder() + "meshbus", "bench", "member"},
                                  .ready_limit = std::chrono::seconds(60)},
                                 {.on_failure = [](const RankReport&) {}})));
}

CastMesh::~CastMesh() {
  // The best that can be done; what is left ends with this process.
  static_cast<void>(mesh_->stop({.reason = "measured", .grace = std::chrono::seconds(1)}));
  if (is_own_) static_cast<void>(hosts_.shutdown(std::chrono::seconds(10)));
}

Json CastMesh::measure(const BenchArguments& arguments, std::size_t size) {
  const auto figures = bench::cast_to(context_, mesh_->ref(), size, arguments.count);
  Json one = bench_row(size, figures.p50_us, figures.p99_us, figures.per_s, std::nullopt);
  one["peers"] = arguments.peers;
  return one;
}

HostMesh CastMesh::hosts_of(Context& context, const BenchArguments& arguments) {
  if (arguments.hosts.empty())
    return bench::must(HostMesh::process(context, bench::must(Extent::parse("host=1"))));
  std::vector<HostAddr> hosts;
  for (const std::string& word : arguments.hosts)
    hosts.push_back(bench::must(HostAddr::parse(word)));
  return bench::must(HostMesh::attach(context, "bench", std::move(hosts)));
}

void CastMesh::be_member() {
  ProcProgram program;
  program.on(bench::kCastPort, [](Proc&, const Incoming& call) { return std::string(call.body); });
  program.actor<Member>(bench::kCastActor);
  bootstrap_or_die(program);
}

}  // namespace meshbus::cli
