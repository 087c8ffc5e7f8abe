"""A web service on asyncio that turns requests into records and answers from a sum of them.

A background task reads the records and adds up the sum. The sum covers the records read since the
service started, because it lies in memory and the group's offset goes on.

python examples/asyncio_service.py --bootstrap-servers 127.0.0.1:9092 --port 8000 curl -X POST
localhost:8000/orders -H 'content-type: application/json' -d '{"country": "NL", "amount": 12.5}'
curl localhost:8000/revenue/NL
"""

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, FiniteFloat, ValidationError

from log_service.client import AsyncioConsumer, AsyncioProducer, KafkaError

logger = logging.getLogger("uvicorn.error")  # uvicorn's own, which it shows


class Order(BaseModel):
    country: str
    amount: FiniteFloat


class Taken(BaseModel):
    """The position of the order in the log."""

    partition: int
    offset: int


async def add_up(consumer: AsyncioConsumer, revenue: dict[str, float]) -> None:
    """Read orders until the task is cancelled.

    Leaving the consumer's block commits the orders that were added.
    """
    async for record in consumer:
        try:
            order = Order.model_validate_json(record.value or b"")
        # anyone may write to the topic; raised here, it would come again after each start
        except ValidationError as error:
            logger.warning(
                "skipped %s-%d offset %d: %s", record.topic, record.partition, record.offset, error
            )
        else:
            revenue[order.country] = revenue.get(order.country, 0.0) + order.amount


def end_service(failed: asyncio.Task[None]) -> None:
    """Stop the server as Ctrl-C does.

    Without the task it would go on and respond with an old sum.
    """
    if not failed.cancelled() and failed.exception() is not None:
        signal.raise_signal(signal.SIGINT)


def service(bootstrap_servers: str, topic: str) -> FastAPI:
    revenue: dict[str, float] = {}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # The clients live as long as the service, on its event loop: one of each serves all
        # requests.
        async with (
            AsyncioProducer(bootstrap_servers, linger_ms=5) as app.state.producer,
            AsyncioConsumer(
                bootstrap_servers, group_id="revenue", auto_offset_reset="earliest"
            ) as consumer,
            # raises what a task of it raised, instead of forgetting it
            asyncio.TaskGroup() as tasks,
        ):
            await consumer.subscribe([topic])
            app.state.adding = tasks.create_task(add_up(consumer, revenue))
            app.state.adding.add_done_callback(end_service)
            yield
            app.state.adding.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders", status_code=201)
    async def take(order: Order, request: Request) -> Taken:
        """Respond once the order is acknowledged.

        A client that goes away meanwhile does not take the record back.
        """
        producer: AsyncioProducer = request.app.state.producer
        receipt = await producer.send(topic, order.model_dump_json(), key=order.country)
        metadata = await receipt.wait()
        return Taken(partition=metadata.partition, offset=metadata.offset)

    @app.get("/revenue/{country}")
    async def tell(country: str) -> float:
        return revenue.get(country, 0.0)

    @app.exception_handler(KafkaError)
    async def refuse(_request: Request, error: KafkaError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status_code=503 if error.is_retriable else 500)

    return app


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="paid-orders")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    app = service(arguments.bootstrap_servers, arguments.topic)
    uvicorn.run(app, host="127.0.0.1", port=arguments.port)
    if not app.state.adding.cancelled():
        sys.exit("the orders could not be read any more: see above")


if __name__ == "__main__":
    main()
