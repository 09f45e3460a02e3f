// LevelDB or RocksDB behind five C functions. The two have the same C++ interface; NS is the
// namespace. It is used and not the stores' own C interface, which copies every value once more.

#include <cstdio>
#include <memory>
#include <string>

#ifdef LEVELDB
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>
#else
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>
#include <rocksdb/write_batch.h>
#endif

#define JOIN2(a, b) shim_##a##_##b
#define JOIN(a, b) JOIN2(a, b)
#define NAME(function) JOIN(NS, function)

namespace {

constexpr size_t kMemtable = 8 << 20;
constexpr size_t kCache = 160 << 20;
constexpr int kBits = 10;

struct Store {
#ifdef LEVELDB
  std::unique_ptr<NS::Cache> cache;
  std::unique_ptr<const NS::FilterPolicy> filter;
#endif
  std::unique_ptr<NS::DB> db;
  NS::WriteOptions write;
};

struct Op {
  const char* key;
  size_t key_length;
  const char* value;  // null deletes
  size_t value_length;
};

int Say(const NS::Status& status, char* why, size_t room) {
  if (status.ok()) return 0;
  std::snprintf(why, room, "%s", status.ToString().c_str());
  return -1;
}

}  // namespace

extern "C" {

void NAME(version)(char* text, size_t room) {
#ifdef LEVELDB
  std::snprintf(text, room, "LevelDB %d.%d", NS::kMajorVersion, NS::kMinorVersion);
#else
  std::snprintf(text, room, "RocksDB %d.%d.%d", ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH);
#endif
}

void* NAME(open)(const char* path, bool alike, bool sync, char* why, size_t room) {
  auto store = std::make_unique<Store>();
  NS::Options options;
  options.create_if_missing = true;
  options.compression = NS::kNoCompression;
  if (alike) {
    options.write_buffer_size = kMemtable;
#ifdef LEVELDB
    store->cache.reset(NS::NewLRUCache(kCache));
    store->filter.reset(NS::NewBloomFilterPolicy(kBits));
    options.block_cache = store->cache.get();
    options.filter_policy = store->filter.get();
#else
    NS::BlockBasedTableOptions table;
    table.block_cache = NS::NewLRUCache(kCache);
    table.filter_policy.reset(NS::NewBloomFilterPolicy(kBits));
    options.table_factory.reset(NS::NewBlockBasedTableFactory(table));
#endif
  }
  store->write.sync = sync;
  NS::DB* db = nullptr;
  if (Say(NS::DB::Open(options, path, &db), why, room) != 0) return nullptr;
  store->db.reset(db);
  return store.release();
}

int NAME(write)(void* handle, const Op* ops, size_t count, char* why, size_t room) {
  auto* store = static_cast<Store*>(handle);
  if (count == 1) {
    const NS::Slice key(ops->key, ops->key_length);
    return Say(ops->value != nullptr
                   ? store->db->Put(store->write, key, NS::Slice(ops->value, ops->value_length))
                   : store->db->Delete(store->write, key),
               why, room);
  }
  NS::WriteBatch batch;
  for (const Op* op = ops; op != ops + count; ++op) {
    const NS::Slice key(op->key, op->key_length);
    if (op->value != nullptr) {
      batch.Put(key, NS::Slice(op->value, op->value_length));
    } else {
      batch.Delete(key);
    }
  }
  return Say(store->db->Write(store->write, &batch), why, room);
}

// 1 if the key is there, 0 if not, -1 on failure.
int NAME(read)(void* handle, const char* key, size_t length, char* why, size_t room) {
  std::string value;
  const NS::Status status =
      static_cast<Store*>(handle)->db->Get(NS::ReadOptions(), NS::Slice(key, length), &value);
  if (status.IsNotFound()) return 0;
  return Say(status, why, room) == 0 ? 1 : -1;
}

// The number of entries, or -1.
long long NAME(scan)(void* handle, char* why, size_t room) {
  std::unique_ptr<NS::Iterator> it(
      static_cast<Store*>(handle)->db->NewIterator(NS::ReadOptions()));
  long long found = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) ++found;
  return Say(it->status(), why, room) == 0 ? found : -1;
}

void NAME(close)(void* handle) { delete static_cast<Store*>(handle); }

}  // extern "C"
