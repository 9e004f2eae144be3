#include "agent/mpi/pmix_upcalls.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace meshbus::mpi {
namespace {

PmixHost* the_host = nullptr;

// --- what libpmix calls: docs in pmix_server.h
// ----------------------------------------------------

pmix_status_t on_connected(const pmix_proc_t* proc, void* /*object*/, pmix_info_t* /*info*/,
                           std::size_t /*count*/, pmix_op_cbfunc_t /*done*/, void* /*data*/) {
  the_host->on_inside(proc->rank, true);
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t on_finalized(const pmix_proc_t* proc, void* /*object*/, pmix_op_cbfunc_t /*done*/,
                           void* /*data*/) {
  the_host->on_inside(proc->rank, false);
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t on_abort(const pmix_proc_t* proc, void* /*object*/, int status, const char* text,
                       pmix_proc_t* /*procs*/, std::size_t /*count*/, pmix_op_cbfunc_t /*done*/,
                       void* /*data*/) {
  // Open MPI says "N/A" when the program has said nothing.
  const std::string words = text == nullptr ? "" : text;
  the_host->on_abort(proc->rank, status, words == "N/A" ? "" : words);
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t on_fence(const pmix_proc_t* procs, std::size_t count, const pmix_info_t* /*info*/,
                       std::size_t /*infos*/, char* bytes, std::size_t size,
                       pmix_modex_cbfunc_t done, void* data) {
  std::vector<std::uint64_t> ranks;
  for (std::size_t i = 0; i < count; ++i) {
    if (procs[i].rank == PMIX_RANK_WILDCARD) {
      ranks.clear();
      break;
    }
    ranks.push_back(procs[i].rank);
  }
  std::string part(bytes == nullptr ? "" : bytes, bytes == nullptr ? 0 : size);
  std::free(bytes);  // It is ours now.
  the_host->on_fence(count > 0 ? procs[0].nspace : "", std::move(ranks), std::move(part), done,
                     data);
  return PMIX_SUCCESS;
}

pmix_status_t on_direct_modex(const pmix_proc_t* proc, const pmix_info_t* /*info*/,
                              std::size_t /*infos*/, pmix_modex_cbfunc_t done, void* data) {
  the_host->on_direct_modex(proc->rank, done, data);
  return PMIX_SUCCESS;
}

pmix_status_t on_spawn(const pmix_proc_t* proc, const pmix_info_t* /*info*/, std::size_t /*infos*/,
                       const pmix_app_t* /*apps*/, std::size_t /*count*/,
                       pmix_spawn_cbfunc_t /*done*/, void* /*data*/) {
  the_host->on_refused(proc->rank, "MPI_Comm_spawn");
  return PMIX_ERR_NOT_SUPPORTED;
}

pmix_status_t on_connect(const pmix_proc_t* procs, std::size_t count, const pmix_info_t* /*info*/,
                         std::size_t /*infos*/, pmix_op_cbfunc_t /*done*/, void* /*data*/) {
  the_host->on_refused(count > 0 ? procs[0].rank : 0, "MPI_Comm_connect or MPI_Comm_accept");
  return PMIX_ERR_NOT_SUPPORTED;
}

pmix_status_t on_publish(const pmix_proc_t* /*proc*/, const pmix_info_t* /*info*/,
                         std::size_t /*infos*/, pmix_op_cbfunc_t /*done*/, void* /*data*/) {
  return PMIX_ERR_NOT_SUPPORTED;
}

pmix_status_t on_lookup(const pmix_proc_t* /*proc*/, char** /*keys*/, const pmix_info_t* /*info*/,
                        std::size_t /*infos*/, pmix_lookup_cbfunc_t /*done*/, void* /*data*/) {
  return PMIX_ERR_NOT_SUPPORTED;
}

pmix_status_t on_unpublish(const pmix_proc_t* /*proc*/, char** /*keys*/,
                           const pmix_info_t* /*info*/, std::size_t /*infos*/,
                           pmix_op_cbfunc_t /*done*/, void* /*data*/) {
  return PMIX_ERR_NOT_SUPPORTED;
}

pmix_status_t on_register_events(pmix_status_t* /*codes*/, std::size_t /*count*/,
                                 const pmix_info_t* /*info*/, std::size_t /*infos*/,
                                 pmix_op_cbfunc_t /*done*/, void* /*data*/) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t on_deregister_events(pmix_status_t* /*codes*/, std::size_t /*count*/,
                                   pmix_op_cbfunc_t /*done*/, void* /*data*/) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t on_event(pmix_status_t /*code*/, const pmix_proc_t* /*source*/,
                       pmix_data_range_t /*range*/, pmix_info_t* /*info*/, std::size_t /*infos*/,
                       pmix_op_cbfunc_t /*done*/, void* /*data*/) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t on_job_control(const pmix_proc_t* /*requester*/, const pmix_proc_t* /*targets*/,
                             std::size_t /*count*/, const pmix_info_t* /*info*/,
                             std::size_t /*infos*/, pmix_info_cbfunc_t /*done*/, void* /*data*/) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t on_query(pmix_proc_t* /*proc*/, pmix_query_t* /*queries*/, std::size_t /*count*/,
                       pmix_info_cbfunc_t /*done*/, void* /*data*/) {
  return PMIX_ERR_NOT_SUPPORTED;
}

// It returns nothing up to 6.1.
void on_log(const pmix_proc_t* /*client*/, const pmix_info_t* /*info*/, std::size_t /*infos*/,
            const pmix_info_t* /*directives*/, std::size_t /*count*/, pmix_op_cbfunc_t done,
            void* data) {
  if (done != nullptr) the_host->on_logged(done, data);
}

}  // namespace

pmix_server_module_t make_module(PmixHost& host) {
  the_host = &host;
  pmix_server_module_t module{};
  module.client_connected2 = on_connected;
  module.client_finalized = on_finalized;
  module.abort = on_abort;
  module.fence_nb = on_fence;
  module.direct_modex = on_direct_modex;
  module.publish = on_publish;
  module.lookup = on_lookup;
  module.unpublish = on_unpublish;
  module.spawn = on_spawn;
  module.connect = on_connect;
  module.register_events = on_register_events;
  module.deregister_events = on_deregister_events;
  module.notify_event = on_event;
  module.query = on_query;
  module.log = on_log;
  module.job_control = on_job_control;
  return module;
}

void answer(pmix_modex_cbfunc_t done, void* data, pmix_status_t status, const std::string& bytes) {
  char* copy = bytes.empty() ? nullptr : static_cast<char*>(std::malloc(bytes.size()));
  // Bytes, not text: libpmix takes their number.
  if (copy != nullptr) std::copy(bytes.begin(), bytes.end(), copy);
  done(status, copy, copy == nullptr ? 0 : bytes.size(), data, std::free, copy);
}

}  // namespace meshbus::mpi
