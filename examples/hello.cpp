// A whole launcher: four procs on two hosts, how they end, and what they wrote.
#include <meshbus/client.h>
#include <meshbus/must.h>

#include <iostream>

using namespace meshbus;
using namespace std::chrono_literals;

int main() {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, must(Extent::parse("host=2"))));
  auto mesh = must(hosts.spawn("hello", must(Extent::parse("gpu=2")),
                               {.command = {"sh", "-c", "echo $RANK of $WORLD_SIZE >&2"}}));
  for (const auto& rank : must(mesh.wait(30s)).ranks)
    std::cout << rank.describe() << ", and said " << rank.stderr_tail;
  must(hosts.shutdown());
}
