"""The token for a program that knows none: it runs while it holds the token, and is stopped (SIGSTOP) otherwise.

What CUDA interception is to KubeShare, signals are here. A program that sleeps inside its quota gives the token back;
it is left running then, and asks anew as soon as it uses the processor.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from eunomia.sharing.shares.desk import Desk
from eunomia.sharing.shares.program import Program

LOOK_S = 0.02  # between two looks at a program that runs
AWAKE_S = 0.002  # processor seconds in a look from which a program counts as awake
ASLEEP = 3  # looks in a row without processor time


@dataclass
class Warden:
    """Watches one program."""

    desk: Desk
    program: Program

    async def watch(self) -> None:
        """Until the program has ended. It is stopped when this begins."""
        try:
            quota_s = await self.desk.acquire(self.program.name)
            while not self.program.ended:
                self.program.look()
                self.program.go()
                if await self._run(quota_s):
                    self.desk.release(self.program.name)
                    await self._sleep()
                    quota_s = await self.desk.acquire(self.program.name)
                else:
                    self.program.stop()
                    await self.program.stopped()
                    quota_s = await self.desk.renew(self.program.name)
        finally:
            self.desk.leave(self.program.name)

    async def _run(self, quota_s: float) -> bool:
        """Let it run for its quota; True as soon as it sleeps."""
        end_s, idle = self.desk.clock() + quota_s, 0
        before_s = self.program.cpu_s()
        while (left_s := end_s - self.desk.clock()) > 0.0:
            await asyncio.sleep(min(left_s, LOOK_S))
            now_s = self.program.cpu_s()
            idle = idle + 1 if now_s - before_s < AWAKE_S and left_s > LOOK_S else 0
            if idle >= ASLEEP or self.program.ended:
                return True
            before_s = now_s
        return False

    async def _sleep(self) -> None:
        """Until it uses the processor again; then it is stopped."""
        before_s = self.program.cpu_s()
        while not self.program.ended:
            await asyncio.sleep(LOOK_S)
            self.program.look()
            if self.program.cpu_s() - before_s > AWAKE_S:
                break
        self.program.stop()
