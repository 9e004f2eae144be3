// Ring all-reduce: every rank has a vector of numbers, and in the end every rank has the sum of all
// of them. Each rank only ever talks to its right neighbour, and each number goes round twice,
// whatever the number of ranks:
//
//     meshbus run --mesh --hosts 2 --per-host gpus=4 -- ring_allreduce 100000
//
// The vector is cut into one part per rank. In the first round parts travel to the right and are
// added to on their way, so that each rank ends with one part that is complete; in the second round
// the complete parts travel on until everybody has all.
#include <meshbus/proc.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using meshbus::Incoming;
using meshbus::Proc;

namespace {

using Vector = std::vector<std::uint64_t>;

/// What the left neighbour has sent and main() has not taken yet. Messages of one sender come in
/// the order in which they were sent.
class Inbox {
 public:
  void put(std::string part) {
    const std::lock_guard lock(mutex_);
    parts_.push_back(std::move(part));
    changed_.notify_one();
  }
  std::string take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 60s, [this] { return !parts_.empty(); }))
      throw std::runtime_error("nothing comes from the left");
    auto part = std::move(parts_.front());
    parts_.pop_front();
    return part;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> parts_;
};

/// Where part `index` of `count` begins.
std::size_t begin_of(std::size_t size, std::size_t index, std::size_t count) {
  return size * index / count;
}

void all_reduce(Proc& proc, Inbox& inbox, Vector& values) {
  const auto ranks = proc.world_size();
  const auto right = (proc.rank() + 1) % ranks;
  const auto bytes_of = [&](std::size_t part) {
    const auto begin = begin_of(values.size(), part, ranks),
               end = begin_of(values.size(), part + 1, ranks);
    return std::pair(values.data() + begin, (end - begin) * sizeof(values[0]));
  };
  for (std::uint64_t step = 0; step < 2 * (ranks - 1); ++step) {
    const auto [out, out_size] = bytes_of((proc.rank() + 2 * ranks - step) % ranks);
    const auto sent =
        proc.send(right, 1, std::string_view(reinterpret_cast<const char*>(out), out_size));
    if (!sent) throw std::runtime_error(sent.error().to_string());
    const auto [in, in_size] = bytes_of((proc.rank() + 2 * ranks - step - 1) % ranks);
    const auto part = inbox.take();
    if (part.size() != in_size)
      throw std::runtime_error("a part of " + std::to_string(part.size()) + " bytes");
    if (step < ranks - 1) {
      for (std::size_t i = 0; i < in_size / sizeof(values[0]); ++i) {
        std::uint64_t number = 0;
        std::memcpy(&number, part.data() + i * sizeof(number), sizeof(number));
        in[i] += number;
      }
    } else {
      std::memcpy(in, part.data(), in_size);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t size = argc == 2 ? std::strtoul(argv[1], nullptr, 10) : 0;
  if (size == 0)
    return std::fprintf(stderr, "usage: meshbus run --mesh -n RANKS -- ring_allreduce NUMBERS\n"),
           2;

  Inbox inbox;
  meshbus::ProcProgram program;
  program.on(1, [&](Proc&, const Incoming& part) {
    inbox.put(std::string(part.body));
    return std::string();
  });
  program.main([&](Proc& proc) {
    // Rank r has (r + 1), 2 (r + 1), 3 (r + 1), ... so everybody knows what the sums must be.
    Vector values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = (proc.rank() + 1) * (i + 1);
    try {
      all_reduce(proc, inbox, values);
    } catch (const std::exception& error) {
      return std::fprintf(stderr, "rank %lu: %s\n", proc.rank(), error.what()), 1;
    }
    const auto ranks = proc.world_size();
    for (std::size_t i = 0; i < size; ++i) {
      const auto expected = ranks * (ranks + 1) / 2 * (i + 1);
      if (values[i] != expected)
        return std::fprintf(stderr, "number %zu is %lu and should be %lu\n", i, values[i],
                            expected),
               1;
    }
    std::printf("rank %lu has the sums of %lu ranks: 1 became %lu, %zu became %lu\n", proc.rank(),
                ranks, values.front(), size, values.back());
    return 0;
  });
  meshbus::bootstrap_or_die(program);
}
