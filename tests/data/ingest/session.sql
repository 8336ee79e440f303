-- A session of Nsight Systems in its export's tables: thread 1 of process 16777216 opens "step" and launches `work`,
-- thread 2 launches `back` inside it, a flush is launched before the range and runs into it; `late` has no launching call.
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO StringIds VALUES (1, 'work(int)'), (2, 'back(int)'), (3, 'vectorized_FillFunctor'), (4, 'late'), (5, 'step'),
  (6, 'cudaLaunchKernel'), (7, 'open');
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2025.1.1');
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);
INSERT INTO TARGET_INFO_GPU VALUES (0, 'Chip of this test');
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (90, 95, 16777217, 10, 6), (110, 115, 16777217, 11, 6),
  (120, 125, 16777218, 12, 6);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER, contextId INTEGER,
  streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, gridX INTEGER,
  gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
  (105, 163, 0, 1, 7, 10, 16777216, 3, 3, 1, 1, 1, 32, 1, 1),
  (165, 169, 0, 1, 7, 11, 16777216, 1, 1, 4, 2, 1, 128, 1, 1),
  (170, 230, 0, 1, 7, 12, 16777216, 2, 2, 4, 2, 1, 128, 1, 1),
  (300, 310, 0, 1, 7, 99, 16777216, 4, 4, 1, 1, 1, 32, 1, 1);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER,
  textId INTEGER, domainId INTEGER);
INSERT INTO NVTX_EVENTS VALUES (-5, NULL, 75, 'Library', 16777217, NULL, 1), (100, 200, 59, NULL, 16777217, 5, 0),
  (150, NULL, 60, NULL, 16777217, 7, 0), (155, 156, 59, 'inner', 16777217, NULL, 1);
