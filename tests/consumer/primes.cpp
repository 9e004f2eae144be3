// Counts primes: launcher and mesh procs in one executable, built outside of the project's tree
// against what `cmake --install` put there.
//
//     primes LIMIT [HOSTS [PROCS]]
//
// starts HOSTS hosts on this machine with PROCS copies of itself on each, asks every one for its
// share of the numbers below LIMIT, and prints the sum. With INSIDE, hosts and procs are threads of
// it.
#include <meshbus/client.h>
#include <meshbus/extent.h>
#include <meshbus/proc.h>
#ifdef INSIDE
#include <meshbus/local.h>
#endif

#include <cstdlib>
#include <future>
#include <iostream>
#include <vector>

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t kCountPort = 1;

bool is_prime(std::uint64_t number) {
  if (number < 2) return false;
  for (std::uint64_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) return false;
  }
  return true;
}

/// What this program is when a mesh has started it: a proc that counts every world_size()-th
/// number.
ProcProgram counter() {
  ProcProgram program;
  program.on(kCountPort, [](Proc& proc, const Incoming& call) -> Result<std::string> {
    const auto limit = std::strtoull(std::string(call.body).c_str(), nullptr, 10);
    if (limit == 0)
      return fail(ErrorCode::parse_error, "not a limit: \"" + std::string(call.body) + "\"");
    std::uint64_t count = 0;
    for (auto number = proc.rank(); number < limit; number += proc.world_size())
      count += is_prime(number) ? 1 : 0;
    return std::to_string(count);
  });
  return program;
}

/// What it is otherwise.
Result<std::uint64_t> count_primes(const std::string& limit, std::uint64_t num_hosts,
                                   std::uint64_t num_procs) {
  auto context = Context::create();
  if (!context) return fail(context.error());
  auto extent = Extent::make({{"host", num_hosts}});
  auto per_host = Extent::make({{"proc", num_procs}});
  if (!extent || !per_host) return fail(extent ? per_host.error() : extent.error());
#ifdef INSIDE
  auto hosts = local_procs(*context, LocalPrograms{{"", counter()}}, *extent);
#else
  auto hosts = HostMesh::process(*context, *extent);
#endif
  if (!hosts) return fail(hosts.error());
  auto mesh =
      hosts->spawn("primes", *per_host, {.kind = ProcKind::mesh});  // no command: this very program
  if (!mesh) return fail(mesh.error());
  std::vector<std::future<Result<std::string>>> shares;
  for (std::uint64_t rank = 0; rank < mesh->size(); ++rank) {
    shares.push_back(std::async(std::launch::async, [&, rank] {
      return mesh->proc(rank)->call(*context, kCountPort, limit, 60s);
    }));
  }
  std::uint64_t total = 0;
  for (auto& share : shares) {
    const auto count = share.get();
    if (!count) return fail(count.error());
    total += std::strtoull(count->c_str(), nullptr, 10);
  }
  if (auto stopped = mesh->stop(); !stopped) return fail(stopped.error());
  if (auto down = hosts->shutdown(); !down) return fail(down.error());
  return total;
}

}  // namespace

int main(int argc, char** argv) {
  const auto as_proc = bootstrap(counter());  // never returns in a proc
  if (as_proc.error().code() != ErrorCode::not_exist)
    return std::cerr << "primes: " << as_proc.error().to_string() << '\n', 1;
  if (argc < 2) return std::cerr << "usage: primes LIMIT [HOSTS [PROCS]]\n", 2;
  const auto number = [&](int index) {
    return argc > index ? std::strtoull(argv[index], nullptr, 10) : 2;
  };
  const auto count = count_primes(argv[1], number(2), number(3));
  if (!count) return std::cerr << "primes: " << count.error().to_string() << '\n', 1;
  std::cout << *count << " primes below " << argv[1] << '\n';
  return 0;
}
