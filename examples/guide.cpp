// What docs/guide/cpp.md shows beside hello.cpp, as one program that is launcher and proc. A test
// runs it, and tests/check/quotes.py compares the guide with it.
#include <meshbus/actor.h>
#include <meshbus/client.h>
#include <meshbus/must.h>
#include <meshbus/proc.h>

#include <csignal>
#include <future>
#include <iostream>

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

/// Adds up what it is told.
struct Tally : Actor {
  explicit Tally(std::string_view start) : total(std::stoi(std::string(start))) {
    on("add", [this](ActorContext&, const ActorMessage& message) {
      return std::to_string(total += std::stoi(std::string(message.body)));
    });
  }
  int total;
};

/// What this program is when it was started as a proc.
ProcProgram proc_program() {
  ProcProgram program;
  program.on(1, [](Proc& proc, const Incoming& call) {
    return "rank " + std::to_string(proc.rank()) + " got " + std::string(call.body);
  });
  program.on(2, [](Proc& proc, const Incoming& call) {  // passes it on to its right neighbour
    return proc.call((proc.rank() + 1) % proc.world_size(), 1, call.body, 10s);
  });
  program.on(3, [](Proc& proc, const Incoming&) -> Result<std::string> {  // is a launcher too
    auto context = Context::create({.inherited = proc.launcher_settings()});
    if (!context) return fail(context.error());
    return context->setting("stop.idle");
  });
  program.on_stop([](Proc& proc, const std::string& reason) {
    std::cout << "rank " << proc.rank() << " stops: " << reason << std::endl;
  });
  program.actor<Tally>("tally");
  return program;
}

void print(const std::vector<Result<std::string>>& answers) {
  for (const auto& answer : answers)
    std::cout << (answer ? *answer : std::string(to_string(answer.error().code()))) << "\n";
}

/// Another launcher, on hosts that stand: `text` is what HostMeshRef::to_string() printed.
void look_at(const std::string& text) {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::attach(context, must(HostMeshRef::parse(text))));
  for (const auto& mesh : must(hosts.meshes()).meshes) {
    const auto statuses = must(hosts.statuses(must(mesh.ref())));
    std::cout << "there is " << Name::parse(mesh.name)->base() << ": "
              << statuses.count_if([](const Status& one) { return one.is_failure(); }) << " of "
              << mesh.ranks.size() << " failed\n";
    for (const auto& event : must(hosts.events(mesh.name)).events) {
      if (event.end) std::cout << "rank " << event.end->rank << ": " << event.end->words() << "\n";
    }
  }
}

/// Hosts out of an allocator, and what becomes of them.
void allocate() {
  auto context = must(Context::create());
  const auto print_event = [](const AllocationEvent& event) {
    std::cout << event.describe() << std::endl;
  };
  auto allocator = process_allocator();
  auto made = must(allocator->allocate(
      context, {.extent = must(Extent::parse("host=2")), .on_event = print_event}));
  auto hosts = must(HostMesh::allocate(context, "pair", std::move(made)));
  must(hosts.shutdown());

  auto alone = must(local_allocator()->allocate(context, {}));
  auto mesh = must(ProcMesh::allocate(context, "alone", std::move(alone),
                                      must(Extent::parse("gpu=2")), {.command = {"true"}}));
  must(mesh.wait(30s));
  must(mesh.stop());  // and its host
}

/// A controller in this launcher, and a subscriber to it.
void supervise() {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, must(Extent::parse("host=2"))));
  auto controller = must(EmbeddedController::start(context, {.hosts = hosts.hosts()}));
  std::promise<void> ended;
  const auto on_event = [&](const SupervisionEvent& event) {
    if (event.rank && event.rank->is_terminal())
      std::cout << "rank " << event.rank->rank << ": " << event.rank->words() << std::endl;
    if (event.kind == SupervisionEvent::Kind::ended) ended.set_value();
  };
  const auto heard = must(Subscription::open(context, hosts.hosts(), {}, on_event));
  auto procs =
      must(hosts.spawn("watched", must(Extent::parse("gpu=1")), {.command = {"sleep", "100"}}));
  must(procs.handover(controller.id()));  // the launcher might go now
  must(controller.end("the day is over"));
  ended.get_future().wait_for(10s);
  must(hosts.shutdown());
}

/// Ends hosts that stand.
void end(const std::string& text) {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::take(context, must(HostMeshRef::parse(text))));
  std::cout << must(hosts.shutdown()).hosts << " of " << hosts.hosts().size() << " hosts are down"
            << std::endl;
}

void launch() {
  auto context = must(Context::create({.settings = {{"stop.idle", "20s"}}}));
  auto hosts = must(HostMesh::process(context, must(Extent::parse("host=2"))));

  ProcSpec spec{.kind = ProcKind::mesh};  // no command: this very program
  spec.environment = {{"OMP_NUM_THREADS", "1"}};
  spec.output = OutputMode::stream;
  Handlers handlers;
  handlers.on_failure = [](const RankReport& rank) {
    std::cout << "lost " << rank.describe() << std::endl;
  };
  handlers.on_output = [](std::uint64_t rank, Stream, std::string_view bytes) {
    std::cout << rank << " says: " << bytes << std::flush;
  };
  auto procs = must(hosts.spawn("workers", must(Extent::parse("gpu=2")), spec, handlers));

  // One of them, by its place; then all of a slice at once.
  std::cout << must(must(procs.at({{"host", 1}, {"gpu", 0}})).call(context, 2, "a letter")) << "\n";
  const auto first_gpus = must(procs.ref().at("gpu", 0));
  print(must(context.call(first_gpus, 1, "a circular", 10s)));
  must(context.cast(procs.ref(), 1, "nobody answers this"));
  print(must(context.call(first_gpus, 3, "", 10s)));

  // What live procs go by can be changed: these write down more from now on.
  for (const auto& one : must(context.change_settings(first_gpus, {{"log.level", "info"}}, 10s)))
    must(one);

  // A death is heard of once, and nobody else's business. {3, 4} is rank 3: up to, not with, 4.
  must(procs.signal({{3, 4}}, SIGKILL));
  must(procs.wait_for_failure(10s));
  print(must(context.call(procs.ref(), 1, "a roll call", 10s)));

  auto tally = must(procs.spawn_actors("tally", "tally", "40", {.region = first_gpus.region()}));
  print(must(tally.call("add", "2")));
  const auto sum = must(tally.accumulate("add", "2", "sum"));
  if (sum.value)
    std::cout << "in all " << to_text(*sum.value) << ", of " << sum.ranks.num_ranks() << " ranks\n";
  for (const auto& [rank, error] : sum.errors)
    std::cout << "without rank " << rank << ": " << error.to_string() << "\n";
  must(tally.stop());

  look_at(hosts.ref().to_string());
  must(procs.stop({.reason = "enough is known"}));
  must(procs.wait(10s));  // also for what they wrote
  const auto summary = must(hosts.shutdown());
  std::cout << summary.hosts << " hosts are down" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const auto as_proc = bootstrap(proc_program());  // never returns in a proc
  if (as_proc.error().code() != ErrorCode::not_exist)
    return std::cerr << as_proc.error().to_string() << std::endl, 1;
  try {
    if (argc == 2) return end(argv[1]), 0;
    launch();
    allocate();
    supervise();
  } catch (const std::exception& error) {  // of must()
    return std::cerr << "guide: " << error.what() << std::endl, 1;
  }
}
