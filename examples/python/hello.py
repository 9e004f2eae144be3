"""Two hosts, two processes on each, and what they said."""
import meshbus

with meshbus.start(hosts=2) as hosts:
    with hosts.spawn(["sh", "-c", "echo $RANK of $WORLD_SIZE >&2"], per_host={"gpu": 2}) as mesh:
        for report in mesh.wait(30).ranks:
            print(report, "and said", report.stderr_tail.strip())
