// A program that is a mesh proc and nothing else: it needs meshbus::proc only.
#include <meshbus/proc.h>

int main() {
  meshbus::bootstrap_or_die(meshbus::ProcProgram().main(
      [](meshbus::Proc& proc) { return proc.rank() < proc.world_size() ? 0 : 1; }));
}
