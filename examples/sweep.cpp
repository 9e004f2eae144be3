// Parameter sweep: four procs on two hosts try out learning rates; when one of them dies, the
// launcher puts another in its place and asks again. One executable is both launcher and proc:
//
//     sweep                # all goes well
//     sweep --lose 1       # the proc of rank 1 dies in the middle of its work
#include <meshbus/client.h>
#include <meshbus/proc.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

// --- The proc: port 1 takes "RATE MOMENTUM" and answers with how far from the minimum one ends.
// ---

/// Gradient descent with momentum on Rosenbrock's function, whose minimum lies in a long bent
/// valley.
double train(double rate, double momentum) {
  double x = -1.2, y = 1, vx = 0, vy = 0;
  for (int step = 0; step < 20'000; ++step) {
    vx = momentum * vx - rate * (-2 * (1 - x) - 400 * x * (y - x * x));
    vy = momentum * vy - rate * 200 * (y - x * x);
    x += vx;
    y += vy;
  }
  return (1 - x) * (1 - x) + 100 * (y - x * x) * (y - x * x);
}

ProcProgram worker(const std::string& rank_to_lose) {
  return ProcProgram().on(
      1, [rank_to_lose](Proc& proc, const Incoming& call) -> Result<std::string> {
        if (std::to_string(proc.rank()) == rank_to_lose) std::raise(SIGKILL);
        double rate = 0, momentum = 0;
        if (std::sscanf(std::string(call.body).c_str(), "%lf %lf", &rate, &momentum) != 2)
          return fail(ErrorCode::parse_error, "expected RATE MOMENTUM");
        return std::to_string(train(rate, momentum));
      });
}

// --- The launcher. ---

/// Runs trials on the procs of a mesh, one at a time on each, and replaces procs that are lost.
class Sweep {
 public:
  Sweep(Context& context, HostMesh& hosts, std::vector<std::string> trials)
      : context_(context), hosts_(hosts), trials_(std::move(trials)) {}

  Result<void> run(const ProcMesh& mesh) {
    {
      std::vector<std::jthread> threads;
      next_ = mesh.size();
      for (std::uint64_t rank = 0; rank < mesh.size(); ++rank)
        threads.emplace_back([this, rank, proc = *mesh.proc(rank)] { work(proc, rank); });
    }
    if (!problem_.empty()) return fail(ErrorCode::call_error, problem_);
    return {};
  }
  const std::map<std::string, std::string>& results() const { return results_; }
  std::size_t replaced() const { return spares_.size(); }

 private:
  void work(ProcRef proc, std::size_t first) {
    for (auto i = first; i < trials_.size(); i = next_++) {
      auto answer = proc.call(context_, 1, trials_[i], 60s);
      while (!answer && answer.error().code() !=
                            ErrorCode::call_error) {  // not the trial's fault: its proc is lost
        const auto spare = replace();
        if (!spare) return give_up(trials_[i] + ": " + spare.error().to_string());
        proc = *spare;
        answer = proc.call(context_, 1, trials_[i], 60s);
      }
      if (!answer) return give_up(trials_[i] + ": " + answer.error().to_string());
      const std::lock_guard lock(mutex_);
      results_[trials_[i]] = *answer;
    }
  }

  /// Another proc, in a mesh of its own.
  Result<ProcRef> replace() {
    const std::lock_guard lock(mutex_);
    if (spares_.size() == 3)
      return fail(ErrorCode::proc_creation_error, "three procs were lost already");
    auto mesh = hosts_.spawn_n("spare", 1, {.kind = ProcKind::mesh},
                               {.on_failure = [](const RankReport&) {}});
    if (!mesh) return fail(mesh.error());
    spares_.push_back(std::move(*mesh));
    return spares_.back().proc(0);
  }
  void give_up(std::string problem) {
    next_ = trials_.size();
    const std::lock_guard lock(mutex_);
    problem_ = std::move(problem);
  }

  Context& context_;
  HostMesh& hosts_;
  const std::vector<std::string> trials_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::map<std::string, std::string> results_;  // guarded by mutex_, as what follows
  std::vector<ProcMesh> spares_;
  std::string problem_;
};

Result<void> launch(const std::string& rank_to_lose) {
  auto context = Context::create();
  if (!context) return fail(context.error());
  auto hosts = HostMesh::process(*context, *Extent::parse("host=2"));
  if (!hosts) return fail(hosts.error());
  ProcSpec spec{.kind = ProcKind::mesh};  // no command: this very program
  if (!rank_to_lose.empty()) spec.environment = {{"SWEEP_LOSE", rank_to_lose}};
  auto mesh = hosts->spawn("workers", *Extent::parse("slot=2"), spec,
                           {.on_failure = [](const RankReport& rank) {
                             std::cout << "lost: " << rank.describe() << std::endl;
                           }});
  if (!mesh) return fail(mesh.error());

  std::vector<std::string> trials;
  for (const char* const rate : {"0.0001", "0.0003", "0.001"}) {
    for (const char* const momentum : {"0", "0.5", "0.8", "0.9"})
      trials.push_back(std::string(rate) + " " + momentum);
  }
  Sweep sweep(*context, *hosts, trials);
  if (auto done = sweep.run(*mesh); !done) return done;
  auto best = sweep.results().begin();
  for (auto at = best; at != sweep.results().end(); ++at) {
    std::cout << at->first << ": " << at->second << "\n";
    if (std::stod(at->second) < std::stod(best->second)) best = at;
  }
  std::cout << "best of " << sweep.results().size() << ": " << best->first
            << "; procs replaced: " << sweep.replaced() << std::endl;
  if (auto stopped = mesh->stop(); !stopped) return fail(stopped.error());
  if (auto down = hosts->shutdown(); !down) return fail(down.error());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const char* const lose = std::getenv("SWEEP_LOSE");
  const auto as_proc = bootstrap(worker(lose == nullptr ? "" : lose));  // never returns in a proc
  if (argc != 1 && !(argc == 3 && std::string(argv[1]) == "--lose"))
    return std::cerr << "usage: sweep [--lose RANK]\n", 2;
  const auto done =
      as_proc.error().code() == ErrorCode::not_exist ? launch(argc == 3 ? argv[2] : "") : as_proc;
  if (done) return 0;
  std::cerr << "sweep: " << done.error().to_string() << std::endl;
  return 1;
}
