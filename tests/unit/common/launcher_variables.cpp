#include "common/base/launcher_variables.h"

#include <doctest/doctest.h>

using namespace meshbus;

TEST_CASE("launcher_variables: the place that any launcher gives is not inherited") {
  for (const char* name : {"RANK",
                           "MESHBUS_RANK_GPU",
                           "MASTER_PORT",
                           "PMI_FD",
                           "PMI_RANK",
                           "PMIX_RANK",
                           "PMIX_NAMESPACE",
                           "PMIX_SERVER_URI41",
                           "OMPI_COMM_WORLD_RANK",
                           "OMPI_MCA_ess_base_jobid",
                           "OMPI_MCA_orte_hnp_uri",
                           "OMPI_MCA_pmix",
                           "JSM_JSRUN_PORT",
                           "FLUX_JOB_ID",
                           "MPI_LOCALRANKID",
                           "PRTE_LAUNCHED",
                           "TORCHELASTIC_USE_AGENT_STORE",
                           "GROUP_RANK",
                           "ROLE_WORLD_SIZE",
                           "SLURM_PROCID",
                           "MESHBUS_MPI_JOB"}) {
    CAPTURE(name);
    CHECK(is_place_variable(name));
  }
}

TEST_CASE("launcher_variables: what users tune and what a job says of itself passes") {
  for (const char* name :
       {"PATH", "OMPI_MCA_btl", "OMPI_MCA_btl_tcp_if_include", "OMPI_CC", "OMPI_ALLOW_RUN_AS_ROOT",
        "PMIX_MCA_gds", "PRTE_MCA_x", "UCX_TLS", "NCCL_DEBUG", "FLUX_URI", "SLURM_JOB_ID",
        "SLURM_STEP_ID", "GROUP_ID", "RANKS"}) {
    CAPTURE(name);
    CHECK_FALSE(is_place_variable(name));
  }
}

TEST_CASE("launcher_variables: users may set what other launchers set, not what meshbus sets") {
  CHECK(is_own_variable("RANK"));
  CHECK(is_own_variable("MESHBUS_SIZE_HOST"));
  CHECK_FALSE(is_own_variable("PMI_RANK"));
  CHECK_FALSE(is_own_variable("MASTER_ADDR"));
}
