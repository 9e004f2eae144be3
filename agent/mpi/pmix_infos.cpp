#include "agent/mpi/pmix_infos.h"

#include <pmix_server.h>

namespace meshbus::mpi {

PmixInfos::~PmixInfos() {
  for (auto& info : infos_) PMIX_INFO_DESTRUCT(&info);
}

PmixInfos& PmixInfos::add(const char* key, const void* value, pmix_data_type_t type) {
  pmix_info_t info{};
  PMIX_INFO_LOAD(&info, key, value, type);
  infos_.push_back(info);
  return *this;
}

PmixInfos& PmixInfos::u32(const char* key, std::uint64_t value) {
  const auto number = static_cast<std::uint32_t>(value);
  return add(key, &number, PMIX_UINT32);
}
PmixInfos& PmixInfos::u16(const char* key, std::uint64_t value) {
  const auto number = static_cast<std::uint16_t>(value);
  return add(key, &number, PMIX_UINT16);
}
PmixInfos& PmixInfos::rank(const char* key, std::uint64_t value) {
  const auto number = static_cast<pmix_rank_t>(value);
  return add(key, &number, PMIX_PROC_RANK);
}
PmixInfos& PmixInfos::text(const char* key, const std::string& value) {
  return add(key, value.c_str(), PMIX_STRING);
}
PmixInfos& PmixInfos::flag(const char* key, bool value) {
  return add(key, &value, PMIX_BOOL);
}
PmixInfos& PmixInfos::regex(const char* key, const char* value) {
  return add(key, value, PMIX_REGEX);
}
PmixInfos& PmixInfos::array(const char* key, PmixInfos& values) {
  const pmix_data_array_t all{PMIX_INFO, values.size(), values.data()};
  return add(key, &all, PMIX_DATA_ARRAY);
}

}  // namespace meshbus::mpi
