// meshbus-mpi: the MPI helper of one host, for MPICH and its kin. Started by `meshbus run --mpi`.
#include <string_view>

#include "agent/mpi/helper.h"
#include "agent/os/mpi_directory.h"

int main(int argc, char** argv) {
  // What a helper that was killed has left.
  if (argc == 2 && std::string_view(argv[1]) == "--clean") {
    meshbus::os::MpiDirectory::remove_left();
    return 0;
  }
  return meshbus::mpi::run_helper({});
}
