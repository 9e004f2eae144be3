// meshbus-mpi-pmix: the MPI helper of one host, for Open MPI as well. Started by `meshbus run
// --mpi`.
#include "agent/mpi/helper.h"
#include "agent/mpi/pmix_service.h"

int main() {
  return meshbus::mpi::run_helper(meshbus::mpi::PmixService::make);
}
