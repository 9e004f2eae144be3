// A torch job that loses a host, and goes on from its checkpoint on a spare (spec 17.2, 18.1).
#include <doctest/doctest.h>

#include "tests/multihost/programs.h"
#include "tests/multihost/site.h"
#include "tests/support/temp_dir.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

/// Trains by DDP over gloo, writes a checkpoint after each step, and begins where the last one was
/// written. With SLOW the first attempt is still at it when its host is lost.
constexpr char kTraining[] = R"(
import os, sys, time, torch, torch.distributed as dist
checkpoint, steps, slow_from = sys.argv[1], 60, 20
is_slow = "SLOW" in os.environ and os.environ["MESHBUS_JOB_ATTEMPT"] == "0"
torch.manual_seed(0)
dist.init_process_group("gloo")
rank = dist.get_rank()
layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
model = torch.nn.parallel.DistributedDataParallel(layers)
optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
first = 0
if os.path.exists(checkpoint):
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    optimiser.load_state_dict(saved["optimiser"])
    first = saved["step"] + 1
print("rank", rank, "begins at", "the start" if first == 0 else "a checkpoint", flush=True)
for step in range(first, steps):
    batch = torch.randn(16, 8, generator=torch.Generator().manual_seed(1000 * step + rank))
    loss = ((model(batch) - batch.sum(1, keepdim=True)) ** 2).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    if rank == 0:
        torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(),
                    "step": step}, checkpoint + ".new")
        os.replace(checkpoint + ".new", checkpoint)
    dist.barrier()
    if is_slow and step >= slow_from:
        print("in the middle", flush=True)
        time.sleep(0.5)  # sleep-ok: a step that takes long; it ends with its host
print("rank", rank, "loss %.5f" % total.item(), flush=True)
)";

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

/// The loss that rank 0 has at the end, as exact as sums of floats in another order are: DDP orders
/// its buckets anew after a start.
std::string loss_in(const std::string& output) {
  const std::string words = "rank 0 loss ";
  const auto at = output.find(words);
  if (at == std::string::npos) return "";
  return output.substr(at + words.size(), output.find('\n', at) - at - words.size());
}

}  // namespace

TEST_CASE("multihost: DDP that loses a host goes on from its checkpoint, and learns the same" *
          doctest::skip(!has_torch())) {
  Site site(3);
  const TempDir dir;
  const auto script = dir.write("train.py", kTraining);
  const auto job = [&](const Words& options, const std::string& checkpoint) {
    Words words = {"--use",   "2",
                   "-n",      "4",
                   "--torch", "--no-prefix",
                   "-x",      "OMP_NUM_THREADS=1",
                   "--set",   "delivery.limit=4s",
                   "--set",   "lease=6s",
                   "--grace", "1s"};
    words.insert(words.end(), options.begin(), options.end());
    const Words command = {"--", kPython, script, checkpoint};
    words.insert(words.end(), command.begin(), command.end());
    return site.desk().start(site.run_words(words));
  };
  auto undisturbed = job({}, dir / "undisturbed");
  CHECK(undisturbed.wait_exit(2min) == ExitStatus::exited(0));
  INFO(undisturbed.describe());
  REQUIRE(loss_in(undisturbed.out()) != "");

  auto disturbed = job({"-x", "SLOW=1"}, dir / "disturbed");
  CHECK(wait_until(
      [&] { return count_of(disturbed.out(), "in the middle") > 0 || !disturbed.is_running(); },
      2min));
  site.lab.power_off(1);
  const auto status = disturbed.wait_exit(2min);
  INFO(disturbed.describe());
  CHECK(status == ExitStatus::exited(0));
  CHECK(count_of(disturbed.out(), "begins at the start") == 4);
  CHECK(count_of(disturbed.out(), "begins at a checkpoint") == 4);
  CHECK(loss_in(disturbed.out()) == loss_in(undisturbed.out()));
  MESSAGE("the loss of both is " << loss_in(disturbed.out()));
}
