// A launcher: finds two running hosts, starts four procs on them, asks one, hears another one die,
// and stops the rest.
//
//     meshbus host & meshbus host &                 # each prints its address
//     launcher ADDRESS ADDRESS ./echo_proc
#include <meshbus/client.h>

#include <csignal>
#include <iostream>

using namespace std::chrono_literals;

/// The value, or the end of this program with one line that says what went wrong.
template <typename T>
T must(meshbus::Result<T> result) {
  if (result) return std::move(*result);
  std::cerr << "launcher: " << result.error().to_string() << std::endl;
  std::exit(1);
}

int main(int argc, char** argv) {
  if (argc < 4) return std::cerr << "usage: launcher HOST HOST PROGRAM [ARGUMENT...]\n", 2;
  auto context = must(meshbus::Context::create());
  auto hosts = must(meshbus::HostMesh::attach(
      context, "pair",
      {must(meshbus::HostAddr::parse(argv[1])), must(meshbus::HostAddr::parse(argv[2]))}));
  auto mesh =
      must(hosts.spawn("echo", must(meshbus::Extent::parse("gpu=2")),
                       {.kind = meshbus::ProcKind::mesh, .command = {argv + 3, argv + argc}},
                       {.on_failure = [](const meshbus::RankReport& rank) {
                         std::cout << "heard: " << rank.describe() << std::endl;
                       }}));
  const auto proc = must(mesh.at({{"host", 1}, {"gpu", 0}}));
  std::cout << proc.id() << " answers " << must(proc.call(context, 1, "hello")) << std::endl;
  if (auto sent = mesh.signal({{3, 4}}, SIGKILL); !sent)
    return std::cerr << sent.error().to_string() << std::endl, 1;
  must(mesh.wait_for_failure(10s));
  for (const auto& rank : must(mesh.stop({.reason = "seen enough"})).ranks)
    std::cout << rank.describe() << std::endl;
}
