// Launcher and proc in one executable: run without arguments it starts two hosts on this machine
// and four copies of itself on them.
#include <meshbus/client.h>
#include <meshbus/proc.h>

#include <iostream>

using namespace meshbus;

/// What this program is when it was started as a proc of a mesh.
ProcProgram proc_program() {
  ProcProgram program;
  program.on(1, [](Proc& proc, const Incoming& call) {
    return "rank " + std::to_string(proc.rank()) + " got \"" + std::string(call.body) + "\"";
  });
  return program;
}

/// What it is otherwise.
Result<void> launch() {
  auto context = Context::create();
  if (!context) return fail(context.error());
  auto hosts = HostMesh::process(*context, *Extent::parse("host=2"));
  if (!hosts) return fail(hosts.error());
  auto mesh = hosts->spawn("twin", *Extent::parse("gpu=2"),
                           {.kind = ProcKind::mesh});  // no command: this very program
  if (!mesh) return fail(mesh.error());
  for (std::uint64_t rank = 0; rank < mesh->size(); ++rank) {
    const auto answer = mesh->proc(rank)->call(*context, 1, "good morning");
    if (!answer) return fail(answer.error());
    std::cout << *answer << std::endl;
  }
  if (auto stopped = mesh->stop(); !stopped) return fail(stopped.error());
  if (auto down = hosts->shutdown(); !down) return fail(down.error());
  return {};
}

int main() {
  const auto as_proc = bootstrap(proc_program());  // never returns in a proc
  const auto done = as_proc.error().code() == ErrorCode::not_exist ? launch() : as_proc;
  if (done) return 0;
  std::cerr << "single_binary: " << done.error().to_string() << std::endl;
  return 1;
}
