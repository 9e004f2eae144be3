#pragma once

#include <pmix.h>

#include <cstdint>
#include <string>
#include <vector>

namespace meshbus::mpi {

/// A list of keys and values as libpmix takes it. libpmix copies what it keeps.
class PmixInfos {
 public:
  PmixInfos() = default;
  PmixInfos(const PmixInfos&) = delete;
  PmixInfos& operator=(const PmixInfos&) = delete;
  PmixInfos(PmixInfos&&) = default;
  PmixInfos& operator=(PmixInfos&&) = delete;
  ~PmixInfos();

  // libpmix refuses a value of another type than the one that a key has.
  PmixInfos& u32(const char* key, std::uint64_t value);
  PmixInfos& u16(const char* key, std::uint64_t value);
  PmixInfos& rank(const char* key, std::uint64_t value);
  PmixInfos& text(const char* key, const std::string& value);
  PmixInfos& flag(const char* key, bool value);
  /// A list of numbers or names in libpmix's own compressed form.
  PmixInfos& regex(const char* key, const char* value);
  PmixInfos& array(const char* key, PmixInfos& values);

  pmix_info_t* data() { return infos_.data(); }
  std::size_t size() const { return infos_.size(); }

 private:
  PmixInfos& add(const char* key, const void* value, pmix_data_type_t type);
  std::vector<pmix_info_t> infos_;
};

}  // namespace meshbus::mpi
