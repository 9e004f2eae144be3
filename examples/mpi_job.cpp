// A launcher of an MPI job: four ranks of a program on two hosts of this machine, which are there
// for it alone. Exits as the job does.
//
//     mpi_job ./simulation input.dat
#include <meshbus/client.h>
#include <meshbus/must.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc < 2) return std::cerr << "usage: mpi_job PROGRAM [ARGUMENT...]\n", 2;
  auto context = meshbus::must(meshbus::Context::create());
  auto hosts = meshbus::must(
      meshbus::HostMesh::process(context, meshbus::must(meshbus::Extent::parse("host=2"))));
  auto job = meshbus::must(hosts.spawn_n(
      "job", 4,
      {.command = {argv + 1, argv + argc},
       .output = meshbus::OutputMode::stream,
       .mpi = meshbus::Mpi::automatic},
      {.on_failure =
           [](const meshbus::RankReport& rank) { std::cerr << rank.describe() << std::endl; },
       .on_output = [](std::uint64_t, meshbus::Stream,
                       std::string_view text) { std::cout << text << std::flush; }}));
  const auto outcome = meshbus::must(job.wait(std::chrono::hours(24)));
  if (outcome.trouble) std::cerr << outcome.trouble->words << std::endl;
  return outcome.exit_code();
}
