"""The tables that a measurement writes: runs, what was timed, counted, traced and checked in each, and the state of the machine."""

from __future__ import annotations

from collections.abc import Mapping

from attribution.tables.column import Column, table

MEASURED: Mapping[str, Mapping[str, Column]] = {
    "runs": table(
        run=("int32", "number of this run in the recording: the key of all other tables"),
        question=("category", "the question: name of the base that the arms of one group share"),
        round=("int32", "round, from 0; arms of one round are paired"),
        position=("int16", "place of the arm in its round, from 0"),
        predecessor=("category", "arm that ran just before in this question, '' for the first"),
        arm=("category", "variant's name, or `null`: the base again under another name"),
        kernel=("category", "kernel"),
        variant=("category", "variant that was run; for the null arm its base"),
        shape=("category", "shape as `q=128,n=8192`, in declared order"),
        distribution=("category", "distribution of the inputs"),
        seed=("int64", "seed of the inputs"),
        flags=("category", "all flags, resolved, as JSON with sorted keys"),
        knobs=("category", "all launch knobs, resolved, as JSON with sorted keys"),
        build=("category", "identity of the build, '' on the host machine"),
        inputs=("category", "sha256 of the inputs' bytes, first 16 digits"),
        status=("category", "ok, failed or skipped"),
        reason=("str", "why it failed or was skipped, else ''"),
        begin_ns=("int64", "wall clock at the start, ns since the epoch"),
    ),
    "times": table(
        run=("int32", "run"),
        scope=(
            "category",
            "event, graph, cupti, ncu, trace, host-virtual, wall (the host's clock) or cpu (CPU time): "
            "values of two scopes are never combined",
        ),
        stage=("category", "what was timed: operator (all), main, or a stage's name"),
        cache=("category", "cache policy: warm, cold, none (host)"),
        clock=("category", "clock policy: as-found, none (host)"),
        sample=("int32", "sample within the run, from 0"),
        time_ns=("float64", "duration, ns"),
        clock_mhz=("float64", "SM clock during the sample, MHz"),
        flags=(
            "category",
            "comma-separated: clock-limited, shared-gpu, host-bound (the card reached the sample before the host had enqueued all "
            "of it), stages-overlap (two stages of a graph not known for a chain were at work at once, for longer than stamps "
            "cannot tell), ...; '' for none",
        ),
    ),
    "counters": table(
        run=("int32", "run"),
        scope=(
            "category",
            "what it was read under: launch (what was launched), event (ceilings), cupti, ncu or host-virtual",
        ),
        stage=("category", "stage the value belongs to, `operator` for the whole"),
        kernel_name=(
            "str",
            "full demangled name of the launch it was read from; '' on the host machine",
        ),
        launch=("int32", "ordinal of that launch in its process, -1 where there is none"),
        metric=("category", "name of the metric"),
        instance=("str", "instance (opcode, PC, warp state), '' for the rollup"),
        unit=("category", "unit"),
        state=("category", "value, zero or absent: absent is not zero"),
        value=("float64", "value; NaN where absent"),
        pass_group=("int32", "replay pass, -1 where not known"),
        source=("category", "where it comes from: host, launch, ptxas, sass, kernel, events, cupti, or the file"),
    ),
    "lanes": table(
        run=("int32", "run"),
        cta=("int32", "CTA"),
        role=("int8", "index into the manifest's roles of this kernel"),
        sm_begin=("int16", "SM id when the lane began"),
        sm_end=("int16", "SM id when it ended; another one means that it migrated"),
        attempts=("int64", "records that the lane tried to write"),
        capacity=("int64", "records that it could hold: attempts above it were lost"),
    ),
    "events": table(
        run=("int32", "run"),
        cta=("int32", "CTA"),
        role=("int8", "index into the manifest's roles of this kernel"),
        event=("int8", "index into the manifest's events of this kernel"),
        edge=("int8", "0 begin, 1 end"),
        arg=("int32", "first row of the query batch, or what the event declares"),
        time_ns=("int64", "ns from the start of the run's stage; on a GPU from %globaltimer"),
    ),
    "rows": table(
        run=("int32", "run"),
        cta=("int32", "CTA"),
        sm=("int16", "SM that ran it"),
        rows=(
            "int32",
            "rows of output it worked on; where only some CTAs were traced (TRACE = 2) those of others are in it, and it is unread",
        ),
    ),
    "checks": table(
        run=("int32", "run"),
        when=("category", "before or after timing"),
        check=("category", "name of the check"),
        passed=("bool", "whether it held"),
        detail=("str", "what was seen"),
    ),
    "conditions": table(
        run=("int32", "run"),
        when=("category", "before or after the run's timing"),
        sm_clock_mhz=("float64", "SM clock as the driver tells it, MHz; NaN where not known"),
        temperature_c=("float64", "GPU temperature, degrees C; NaN where not known"),
        power_w=("float64", "power drawn, W; NaN where not known"),
        throttle=("category", "reasons for a lower clock, comma-separated; '' for none, or unknown"),
        others=("int32", "other processes on the GPU, -1 where not known"),
    ),
    "capacity": table(
        run=("int32", "run"),
        limit=("category", "segment, row, underflow, or what else the kernel names"),
        failures=("int64", "rows (or segments) that hit the limit"),
        of=("int64", "rows (or segments) that could have"),
    ),
}
